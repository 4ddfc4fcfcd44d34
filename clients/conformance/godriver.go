package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/vectors"
	"github.com/docpriority/priority/lua"
)

// The driver of the module itself: what the drivers of ports do, in Go.

// request is any request of the protocol.
type request struct {
	ID int64  `json:"id"`
	Do string `json:"do"`

	URL       string `json:"url"`
	Client    string `json:"client"`
	Prefix    string `json:"prefix"`
	Timeout   int64  `json:"timeout_ms"`
	Lease     int64  `json:"lease_ms"`
	Overrides bool   `json:"overrides"`
	Join      bool   `json:"join"`
	Fallback  bool   `json:"fallback"`
	As        string `json:"as"`

	Policy vectors.Policy `json:"policy"`

	Customer  []byte        `json:"customer"`
	N         int           `json:"n"`
	Documents [][]byte      `json:"documents"`
	Costs     []json.Number `json:"costs"`
	Took      int64         `json:"took_ms"`

	Kind string `json:"kind"`
	Name string `json:"name"`
}

// drive answers the requests of an input until it ends.
func drive(input io.Reader, output io.Writer) error {
	var store *goStore
	var writing sync.Mutex
	var calls sync.WaitGroup
	end := func() {
		calls.Wait()
		if store != nil {
			store.close()
		}
	}
	defer end()
	answers := json.NewEncoder(output)
	answer := func(r response) {
		writing.Lock()
		defer writing.Unlock()
		_ = answers.Encode(r)
	}
	requests := json.NewDecoder(input)
	for {
		var r request
		err := requests.Decode(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("conformance: %w", err)
		}
		if r.Do == "open" {
			end()
			store, err = openGo(&r)
			answer(response{ID: r.ID, Error: failureOf(err)})
			continue
		}
		calls.Go(func() {
			result := store.do(&r)
			result.ID = r.ID
			answer(result)
		})
	}
}

// goStore is the module's store, with a fallback around it, or a member of its fleet.
type goStore struct {
	priority.Store
	redis *priority.RedisStore
}

func openGo(r *request) (*goStore, error) {
	if !slices.Contains([]string{"", "since_last_update", "since_last_reset"}, r.Policy.Mode) {
		return nil, fmt.Errorf("%w policy: there is no reset mode %q", priority.ErrInvalid, r.Policy.Mode)
	}
	opts := priority.RedisOptions{
		Prefix: r.Prefix, Policy: r.Policy.Priority(), Overrides: r.Overrides,
		Timeout: vectors.Milliseconds(r.Timeout), Lease: vectors.Milliseconds(r.Lease),
	}
	parsed, err := redis.ParseURL(r.URL)
	if err != nil {
		return nil, err
	}
	var client redis.UniversalClient
	switch r.Client {
	case "", "go-redis":
		client = redis.NewClient(parsed)
	case "cluster":
		client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{parsed.Addr}})
	default:
		return nil, fmt.Errorf("%w option: there is no client %q", priority.ErrInvalid, r.Client)
	}
	if r.Join {
		member, err := fleet.Join(client, &fleet.Options{Store: opts, Name: r.As})
		if err != nil {
			return nil, err
		}
		store, _ := priority.As[*priority.RedisStore](member)
		return &goStore{member, store}, nil
	}
	store, err := priority.NewRedisStore(client, &opts)
	if err != nil {
		return nil, err
	}
	opened := &goStore{store, store}
	if r.Fallback {
		opened.Store, err = fallback.New(store, nil)
	}
	return opened, err
}

// close ends what runs in the background.
func (s *goStore) close() {
	if store, ok := s.Store.(interface{ Close(context.Context) error }); ok {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = store.Close(ctx) // Redis may be away
	}
}

func (s *goStore) do(r *request) response {
	ctx, customer := context.Background(), string(r.Customer)
	ids := make([]string, len(r.Documents))
	for i, document := range r.Documents {
		ids[i] = string(document)
	}
	switch r.Do {
	case "next":
		if r.N > 1 {
			return decided(s.NextN(ctx, customer, r.N))
		}
		d, err := s.Next(ctx, customer)
		return decided([]priority.Decision{d}, err)
	case "submit":
		var costs []float64
		for _, cost := range r.Costs {
			number, _ := cost.Float64() // infinity is a cost too, a wrong one
			costs = append(costs, number)
		}
		if len(ids) == 1 && len(costs) == 1 {
			d, err := s.Submit(ctx, customer, ids[0], costs[0])
			return decided([]priority.Decision{d}, err)
		}
		return decided(s.SubmitN(ctx, customer, ids, costs))
	case "done":
		return s.done(customer, ids, time.Duration(r.Took)*time.Millisecond)
	case "peek":
		return seen(s.Peek(ctx, customer))
	case "reset":
		return response{Error: failureOf(s.Reset(ctx, customer))}
	case "key":
		keys := s.redis.Keys(customer)
		if key := map[string]string{"count": keys.Count, "pending": keys.Pending, "override": keys.Override}[r.Kind]; key != "" {
			return response{Key: []byte(key)}
		}
	case "script":
		texts := map[string]string{"next": lua.Next, "submit": lua.Submit, "peek": lua.Peek, "done": lua.Done, "reset": lua.Reset}
		if text := texts[r.Name]; text != "" {
			text = vectors.Script(text, s.redis.PolicyOf(""), s.redis.Lease())
			sum := sha1.Sum([]byte(text))
			return response{Script: text, SHA1: hex.EncodeToString(sum[:])}
		}
	}
	return response{Error: &failure{invalid, fmt.Sprintf("the driver does not know %s %s%s", r.Do, r.Kind, r.Name)}}
}

func decided(told []priority.Decision, err error) response {
	if err != nil {
		return response{Error: failureOf(err)}
	}
	var r response
	for _, d := range told {
		r.Decisions = append(r.Decisions, decision{int64(d.Level), int64(d.RuleLevel), d.Count, d.ResetIn.Milliseconds(), d.Load, d.Pending, d.Degraded})
	}
	return r
}

func (s *goStore) done(customer string, ids []string, took time.Duration) response {
	var all []priority.Ended
	var err error
	if ctx := context.Background(); len(ids) == 1 {
		all = make([]priority.Ended, 1)
		all[0], err = s.Done(ctx, customer, ids[0], took)
	} else {
		all, err = s.DoneN(ctx, customer, ids, took)
	}
	r := response{Error: failureOf(err)}
	for i, e := range all {
		if e.Level > 0 {
			r.Ended = append(r.Ended, ended{[]byte(ids[i]), e.Latency.Milliseconds(), int64(e.Level)})
		}
	}
	return r
}

// rules are the names of the rules.
var rules = map[priority.Rule]string{priority.Unknown: "unknown", priority.ByCount: "by_count", priority.ByLoad: "by_load"}

func seen(s priority.State, err error) response {
	if err != nil {
		return response{Error: failureOf(err)}
	}
	return response{State: &state{
		Rule: rules[s.Rule], Level: int64(s.Level), NextLevel: int64(s.NextLevel),
		Count: s.Count, ResetIn: s.ResetIn.Milliseconds(),
		Load: s.Load, Recent: s.Recent, Cost: s.Cost, Pending: s.Pending, PendingLast: s.PendingLast,
		Oldest: s.Oldest.Milliseconds(), Latency: s.Latency.Milliseconds(), Lease: s.Lease.Milliseconds(),
		RuleLevel: int64(s.RuleLevel), Earliest: int64(s.Override.Earliest), Latest: int64(s.Override.Latest), EndsIn: s.OverrideEndsIn.Milliseconds(),
		Degraded: s.Degraded,
	}}
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	// The documents of one call share a fate here: they are one script.
	if batch := (*priority.BatchError)(nil); errors.As(err, &batch) && len(batch.Errs) > 0 {
		err = batch.Errs[0]
	}
	classes := []struct {
		name string
		is   error
	}{
		{invalid, priority.ErrInvalid}, {notCounted, priority.ErrNotCounted},
		{outcomeUnknown, priority.ErrOutcomeUnknown}, {corrupt, priority.ErrCorrupt},
	}
	for _, class := range classes {
		if errors.Is(err, class.is) {
			return &failure{class.name, strings.ToValidUTF8(err.Error(), "?")}
		}
	}
	return &failure{"other", strings.ToValidUTF8(err.Error(), "?")}
}
