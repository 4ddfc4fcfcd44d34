package insight

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
)

// Listed is a customer in a list.
type Listed struct {
	Name
	*State         // nil: corrupt
	Corrupt string `json:"corrupt,omitempty"` // the corrupt key
}

// Walk goes through all customers by SCAN, at a bounded pace, on one server or on all masters
// of a cluster. It returns every customer who exists during the whole walk, some twice if
// Redis's table of keys shrinks or a cluster moves slots meanwhile. It is not safe for
// concurrent use.
type Walk struct {
	snapshot *Snapshot
	pace     int // keys a second; 0: as fast as Redis answers
	due      time.Time

	at     int // the server that is walked through
	cursor uint64
}

// pageKeys is how many keys one SCAN looks at, about.
const pageKeys = 500

// Walk begins a walk.
func (s *Snapshot) Walk(pace int) *Walk { return &Walk{snapshot: s, pace: pace} }

// Done reports whether the walk is at its end.
func (w *Walk) Done() bool { return w.at >= len(w.snapshot.Servers) }

// Next returns the next page, which may be empty.
func (w *Walk) Next(ctx context.Context) ([]Listed, error) {
	if w.Done() {
		return nil, nil
	}
	if w.pace > 0 {
		select {
		case <-time.After(time.Until(w.due)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		w.due = time.Now().Add(pageKeys * time.Second / time.Duration(w.pace))
	}
	s := w.snapshot
	pattern := globEscaper.Replace(s.Prefix) + ":{*}:*"
	keys, cursor, err := s.Servers[w.at].client.Scan(ctx, w.cursor, pattern, pageKeys).Result()
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	page, err := s.list(ctx, slices.Compact(keys))
	if err != nil {
		return nil, err
	}
	if w.cursor = cursor; cursor == 0 {
		w.at++
	}
	return page, nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// list looks up the customers of keys. A corrupt override has its own entry.
func (s *Snapshot) list(ctx context.Context, keys []string) ([]Listed, error) {
	var customers []string
	held := make(map[string]map[string]string) // each customer's keys, by their ends
	var page []Listed
	overrides := make(map[string]*redis.StringCmd)
	pipe := s.Client.Pipeline()
	for _, key := range keys {
		customer, end, ok := parseKey(s.Prefix, key)
		switch {
		case !ok:
			continue
		case end == overrideEnd:
			overrides[customer] = pipe.Get(ctx, key)
			continue
		case held[customer] == nil:
			customers = append(customers, customer)
			held[customer] = make(map[string]string)
		}
		held[customer][end] = key
	}
	states, err := s.Store.PeekEach(ctx, customers)
	for i, err := range itemerrors.Of(err, len(customers)) {
		if err != nil && !errors.Is(err, priority.ErrCorrupt) {
			return nil, cause(err)
		}
		listed, end := Listed{Name: NameOf(customers[i])}, countEnd
		if err == nil {
			state := stateOf(states[i])
			listed.State = &state
			if states[i].Rule == priority.ByLoad {
				end = pendingEnd
			}
		} else if strings.Contains(err.Error(), "CORRUPTPENDING") {
			end = pendingEnd
		}
		key, ok := held[customers[i]][end] // the other key of the customer has its own entry, or will have
		if !ok {
			continue
		}
		if err != nil {
			listed.Corrupt = key
		}
		page = append(page, listed)
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	for customer, reply := range overrides {
		var bounds priority.Override
		text, err := reply.Bytes()
		switch {
		case errors.Is(err, redis.Nil), err == nil && bounds.UnmarshalText(text) == nil:
		case err == nil, redis.HasErrorPrefix(err, "WRONGTYPE"):
			page = append(page, Listed{Name: NameOf(customer), Corrupt: s.Store.Keys(customer).Override})
		default:
			return nil, err
		}
	}
	return page, nil
}

// The suffixes of a customer's keys.
const (
	countEnd    = "}:count"
	pendingEnd  = "}:pending"
	overrideEnd = "}:override"
)

// parseKey returns the customer whose key this is, and its suffix. It is false for a key that
// the module never writes.
func parseKey(prefix, key string) (customer, end string, ok bool) {
	body, ok := strings.CutPrefix(key, prefix+":{")
	if !ok {
		return "", "", false
	}
	for _, end = range []string{countEnd, pendingEnd, overrideEnd} {
		if text, ok := strings.CutSuffix(body, end); ok {
			customer = strings.NewReplacer("%25", "%", "%7D", "}").Replace(text)
			again := strings.NewReplacer("%", "%25", "}", "%7D").Replace(customer)
			return customer, end, again == text && customer != "" && len(customer) <= priority.MaxCustomerBytes
		}
	}
	return "", "", false
}
