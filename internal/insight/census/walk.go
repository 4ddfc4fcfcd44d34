// Package census walks through all customers by SCAN, at a bounded pace, on one server or
// on all masters of a cluster.
package census

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
)

// Entry is one customer, or a corrupt key of a customer.
type Entry struct {
	Customer string
	State    priority.State
	Corrupt  string // the corrupt key; empty: State is known
}

// Options say what to walk through and how fast.
type Options struct {
	Prefix string // of the keys

	// PageKeys is how many keys one SCAN looks at, about. Default: 500.
	PageKeys int

	// Pace is how many keys a second are looked at. 0: as fast as Redis answers.
	Pace int
}

const mostPageKeys = 500

// ErrOtherServers: a cursor belongs to other servers, or to another prefix.
var ErrOtherServers = errors.New("the cursor does not fit: servers have restarted, come, gone or changed roles since, or the prefix is another; begin without it")

// Walk goes through the customers, one page after the other. It returns every
// customer who exists during the whole walk, some twice if Redis's table of keys
// shrinks or a cluster moves slots meanwhile. It is not safe for concurrent use.
type Walk struct {
	client  redis.UniversalClient
	options Options
	due     time.Time // the next SCAN is not sent before this
	page    int       // how many keys it looks at
	most    int       // may become
	looked  int64     // how many keys all have looked at
	nodes   []node
	digest  string // of the nodes and the prefix

	at     int // the node that is walked through
	cursor uint64
}

// Start begins a walk, or continues it at a cursor. Empty: from the beginning. The
// client is a *redis.Client or a *redis.ClusterClient. An error is
// [ErrOtherServers], an error of [CheckCursor], or Redis's.
func Start(ctx context.Context, client redis.UniversalClient, options Options, cursor string) (*Walk, error) {
	if options.PageKeys <= 0 {
		options.PageKeys = mostPageKeys
	}
	w := &Walk{client: client, options: options}
	w.page, w.most = options.PageKeys, max(options.PageKeys, mostPageKeys)
	if options.Pace > 0 {
		w.page, w.most = min(w.page, options.Pace), min(w.most, options.Pace)
	}
	var err error
	if w.nodes, err = nodesOf(ctx, client); err != nil {
		return nil, err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%q", options.Prefix)
	for _, node := range w.nodes {
		fmt.Fprintf(hash, "%q", node.id)
	}
	w.digest = hex.EncodeToString(hash.Sum(nil)[:6])
	return w, w.resume(cursor)
}

// CheckCursor checks the form of a cursor.
func CheckCursor(text string) error {
	_, _, _, err := parseCursor(text)
	return err
}

// Cursor returns the cursor for a later Start, behind all that Next has returned.
func (w *Walk) Cursor() string {
	return fmt.Sprintf("%s-%d-%d", w.digest, w.at, w.cursor)
}

// Done reports whether the walk is at its end.
func (w *Walk) Done() bool { return w.at >= len(w.nodes) }

// Widen makes the next page look at twice as many keys, up to 500: for callers who
// find nothing useful in small pages, and would send a SCAN for every few keys.
func (w *Walk) Widen() { w.page = min(2*w.page, w.most) }

// Looked is how many keys the walk has looked at, about.
func (w *Walk) Looked() int64 { return w.looked }

// Keys returns how many keys the servers hold, of any kind.
func (w *Walk) Keys(ctx context.Context) (int64, error) {
	var keys int64
	for _, node := range w.nodes {
		n, err := node.client.DBSize(ctx).Result()
		if err != nil {
			return 0, err
		}
		keys += n
	}
	return keys, nil
}

// Next returns the next page, which may be empty, and io.EOF after the last
// one. The store, of the same Redis and prefix, says what the levels are. After another
// error Next can be called again.
func (w *Walk) Next(ctx context.Context, store *priority.RedisStore) ([]Entry, error) {
	if w.Done() {
		return nil, io.EOF
	}
	if err := w.wait(ctx); err != nil {
		return nil, err
	}
	keys, cursor, err := w.nodes[w.at].client.Scan(ctx, w.cursor, Pattern(w.options.Prefix), int64(w.page)).Result()
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	entries, err := w.read(ctx, store, slices.Compact(keys))
	if err != nil {
		return nil, err
	}
	w.looked += int64(w.page)
	w.cursor = cursor
	if cursor == 0 {
		w.at++
	}
	return entries, nil
}

// wait keeps the pace: a page is due when the page before has taken its time.
func (w *Walk) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil || w.options.Pace <= 0 {
		return err
	}
	select {
	case <-time.After(time.Until(w.due)):
	case <-ctx.Done():
		return ctx.Err()
	}
	w.due = time.Now().Add(time.Duration(w.page) * time.Second / time.Duration(w.options.Pace))
	return nil
}

// read looks the customers of keys up, in one round trip to each node, and one more if
// there are overrides among the keys. A corrupt override is an entry of its own: the
// customer's documents are still counted.
func (w *Walk) read(ctx context.Context, store *priority.RedisStore, keys []string) ([]Entry, error) {
	var customers []string
	var entries []Entry
	held := make(map[string]map[string]string, len(keys)) // each customer's keys, by their ends
	overrides := make(map[string]string)                  // customers, by their keys
	for _, key := range keys {
		customer, end, ok := parse(w.options.Prefix, key)
		switch {
		case !ok:
		case end == overrideEnd:
			overrides[key] = customer
		case held[customer] == nil:
			customers = append(customers, customer)
			held[customer] = map[string]string{end: key}
		default:
			held[customer][end] = key
		}
	}
	states, err := store.PeekEach(ctx, customers)
	for i, err := range itemerrors.Of(err, len(customers)) {
		corrupt := errors.Is(err, priority.ErrCorrupt)
		if err != nil && !corrupt {
			return nil, Cause(err)
		}
		entry := Entry{Customer: customers[i]}
		if !corrupt {
			entry.State = states[i]
		}
		for end, key := range held[entry.Customer] {
			if !stands(end, entry.State, err) {
				continue
			}
			if corrupt {
				entry.Corrupt = key
			}
			entries = append(entries, entry)
			break
		}
	}
	corrupt, err := w.corruptOverrides(ctx, overrides)
	return append(entries, corrupt...), err
}

// corruptOverrides returns the customers whose overrides hold something else.
func (w *Walk) corruptOverrides(ctx context.Context, customers map[string]string) (entries []Entry, err error) {
	if len(customers) == 0 {
		return nil, nil
	}
	keys := slices.Sorted(maps.Keys(customers))
	pipeline := w.client.Pipeline()
	replies := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		replies[i] = pipeline.Get(ctx, key)
	}
	_, _ = pipeline.Exec(ctx) // each reply has its own error
	for i, reply := range replies {
		var override priority.Override
		held, err := reply.Bytes()
		switch {
		case errors.Is(err, redis.Nil): // it has ended
		case err == nil && override.UnmarshalText(held) == nil:
		case err == nil, redis.HasErrorPrefix(err, "WRONGTYPE"):
			entries = append(entries, Entry{Customer: customers[keys[i]], Corrupt: keys[i]})
		default:
			return nil, err
		}
	}
	return entries, nil
}

// Cause returns the part of a store's error that comes from Redis or the
// connection.
func Cause(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		if all := several.Unwrap(); len(all) > 1 {
			return all[len(all)-1]
		}
	}
	return err
}

// stands reports whether the key with this suffix represents its customer, so that a
// customer is returned once, not once for each key.
func stands(end string, state priority.State, err error) bool {
	var reply redis.Error
	if errors.As(err, &reply) {
		return strings.HasPrefix(reply.Error(), "CORRUPT"+strings.ToUpper(strings.TrimPrefix(end, "}:"))+" ")
	}
	switch state.Rule {
	case priority.ByCount:
		return end == countEnd
	case priority.ByLoad:
		return end == pendingEnd
	}
	return false // all has expired since
}

func (w *Walk) resume(cursor string) error {
	if cursor == "" {
		return nil
	}
	digest, at, scan, err := parseCursor(cursor)
	if err != nil {
		return err
	}
	if digest != w.digest || at > len(w.nodes) {
		return ErrOtherServers
	}
	w.at, w.cursor = at, scan
	return nil
}

func parseCursor(text string) (digest string, at int, cursor uint64, err error) {
	fields := strings.Split(text, "-")
	if len(fields) == 3 {
		var atErr, cursorErr error
		at, atErr = strconv.Atoi(fields[1])
		cursor, cursorErr = strconv.ParseUint(fields[2], 10, 64)
		if len(fields[0]) == 12 && atErr == nil && at >= 0 && cursorErr == nil {
			return fields[0], at, cursor, nil
		}
	}
	return "", 0, 0, fmt.Errorf("%.80q is no cursor that list has printed", text)
}
