package priority_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// quiet is the default policy's reset interval.
const quiet = 1500 * time.Second

// levels is the default policy's table written out: levels[n] is the level of
// count -n, and all counts below -30 have the level of -30.
var levels = []priority.Level{
	1, 1, 1, // 0, -1, -2
	2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, // -3 to -14
	8, 8, 8, 8, 8, 8, // -15 to -20
	9, 9, 9, 9, 9, 9, 9, 9, 9, 9, // -21 to -30
}

// counted is the default policy's decision at a count that is not above 0.
func counted(count int64) priority.Decision {
	return priority.Decision{Level: levels[min(-count, 30)], Count: count, ResetIn: quiet}
}

// rule is what the options of all stores have in common.
type rule struct {
	policy priority.Policy
	tiers  map[string]priority.Policy
	tierOf func(customer string) string
}

// intervalOf returns a customer's reset interval.
func (r rule) intervalOf(customer string) time.Duration {
	interval := r.policyOf(customer).ResetInterval
	if interval == 0 {
		return quiet
	}
	return interval
}

func (r rule) policyOf(customer string) priority.Policy {
	if r.tierOf != nil {
		if policy, ok := r.tiers[r.tierOf(customer)]; ok {
			return policy
		}
	}
	return r.policy
}

// longest returns the longest of all reset intervals.
func (r rule) longest() time.Duration {
	longest := max(r.policy.ResetInterval, quiet)
	for policy := range maps.Values(r.tiers) {
		longest = max(longest, policy.ResetInterval)
	}
	return longest
}

// world is a store and the time that its counts live in.
type world struct {
	priority.Store
	wait  func(time.Duration) // lets time pass
	slack time.Duration       // by how much ResetIn may be off
}

// opener makes a store without counts.
type opener func(t *testing.T, r rule) *world

// agree reports whether two decisions are the same.
func (w *world) agree(got, want priority.Decision) bool {
	off := (got.ResetIn - want.ResetIn).Abs()
	got.ResetIn, want.ResetIn = 0, 0
	return got == want && off <= w.slack
}

func (w *world) agreeAll(got, want []priority.Decision) bool {
	return slices.EqualFunc(got, want, w.agree)
}

// The checks below fail the test unless a call works and answers as wanted.

func (w *world) next(t testing.TB, customer string, want priority.Decision) {
	t.Helper()
	got, err := w.Next(t.Context(), customer)
	if err != nil || !w.agree(got, want) {
		t.Fatalf("Next(%q) = %+v, %v, want %+v", brief(customer), got, err, want)
	}
}

func (w *world) nextN(t testing.TB, customer string, n int, want ...priority.Decision) {
	t.Helper()
	got, err := w.NextN(t.Context(), customer, n)
	if err != nil || !w.agreeAll(got, want) {
		t.Fatalf("NextN(%q, %d) = %+v, %v, want %+v", brief(customer), n, got, err, want)
	}
}

func (w *world) nextEach(t testing.TB, customers []string, want ...priority.Decision) {
	t.Helper()
	got, err := w.NextEach(t.Context(), customers)
	if err != nil || !w.agreeAll(got, want) {
		t.Fatalf("NextEach(%q) = %+v, %v, want %+v", customers, got, err, want)
	}
}

func (w *world) peek(t testing.TB, customer string, want priority.Decision) {
	t.Helper()
	got, err := w.Peek(t.Context(), customer)
	if err != nil || !w.agree(got, want) {
		t.Fatalf("Peek(%q) = %+v, %v, want %+v", brief(customer), got, err, want)
	}
}

func (w *world) reset(t testing.TB, customer string) {
	t.Helper()
	if err := w.Reset(t.Context(), customer); err != nil {
		t.Fatalf("Reset(%q) = %v", brief(customer), err)
	}
}

func brief(customer string) string {
	if len(customer) > 40 {
		return fmt.Sprintf("%s… (%d bytes)", customer[:30], len(customer))
	}
	return customer
}

// start is when time begins for clocks that the tests move.
var start = time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)

// openMemory makes a MemoryStore with a clock that is moved.
func openMemory(t *testing.T, r rule) *world {
	t.Helper()
	var passed atomic.Int64
	store, err := priority.NewMemoryStore(&priority.MemoryOptions{
		Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf,
		Now: func() time.Time { return start.Add(time.Duration(passed.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &world{Store: store, wait: func(d time.Duration) { passed.Add(int64(d)) }}
}

// openMiniredis makes a RedisStore on a miniredis of its own, the clock of which
// is moved.
func openMiniredis(t *testing.T, r rule) *world {
	t.Helper()
	return onMiniredis(t, r.longest())(t, r)
}

// onMiniredis makes RedisStores on one miniredis, for rules with intervals up to
// the longest. They share its clock, so they are used one after another.
func onMiniredis(t *testing.T, longest time.Duration) opener {
	t.Helper()
	client, wait := slowMiniredis(t, longest)
	return func(t *testing.T, r rule) *world {
		t.Helper()
		return &world{Store: newStore(t, client, r), wait: wait}
	}
}

// slowMiniredis starts a miniredis with a clock that is moved, for TTLs up to the
// longest.
//
// A key with a TTL of the interval is still there exactly the interval later in
// Redis, but not in miniredis. So its clock is slower here, by half a millisecond
// an interval: too little for any whole millisecond to come out different, and
// enough for the key to be there.
func slowMiniredis(t *testing.T, longest time.Duration) (client *redis.Client, wait func(time.Duration)) {
	t.Helper()
	server := miniredis.RunT(t)
	server.SetTime(start)
	server.ClockTTL(true)
	slower := 2 * (longest/time.Millisecond + 1)
	var passed time.Duration
	return connect(t, server.Addr()), func(d time.Duration) {
		passed += d
		server.SetTime(start.Add(passed - passed/slower))
	}
}

// onServer makes RedisStores on a client of real servers, and lets time pass for
// them by hand, through a client that may be another one.
func onServer(client priority.RedisClient, hand redis.Cmdable) opener {
	return func(t *testing.T, r rule) *world {
		t.Helper()
		store := &handStore{
			RedisStore: newStore(t, client, r), t: t, hand: hand, rule: r,
			due: make(map[string]time.Duration),
		}
		return &world{Store: store, wait: store.wait, slack: handSlack}
	}
}

// handStore is a RedisStore on a real server. The server's clock cannot be moved,
// so the store notes when each count is due, and when time is to pass it removes
// what is overdue and shortens the other TTLs.
type handStore struct {
	*priority.RedisStore
	t    *testing.T
	hand redis.Cmdable
	rule rule
	now  time.Duration
	due  map[string]time.Duration // the last moment of each customer's count
}

// handSlack is more than a test takes: a key that is due now, or nearly, must
// stay until the test comes to it.
const handSlack = 2 * time.Minute

func (s *handStore) Next(ctx context.Context, customer string) (priority.Decision, error) {
	s.counted(customer)
	return s.RedisStore.Next(ctx, customer)
}

func (s *handStore) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	if n > 0 {
		s.counted(customer)
	}
	return s.RedisStore.NextN(ctx, customer, n)
}

func (s *handStore) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	for _, customer := range customers {
		s.counted(customer)
	}
	return s.RedisStore.NextEach(ctx, customers)
}

func (s *handStore) Reset(ctx context.Context, customer string) error {
	delete(s.due, customer)
	return s.RedisStore.Reset(ctx, customer)
}

func (s *handStore) counted(customer string) {
	_, running := s.due[customer]
	if !running || s.rule.policyOf(customer).ResetMode == priority.SinceLastUpdate {
		s.due[customer] = s.now + s.rule.intervalOf(customer)
	}
}

func (s *handStore) wait(d time.Duration) {
	s.t.Helper()
	s.now += d
	for customer, due := range s.due {
		key, left := s.Key(customer), due-s.now
		var err error
		if left < 0 {
			delete(s.due, customer)
			err = s.hand.Del(s.t.Context(), key).Err()
		} else {
			err = s.hand.PExpire(s.t.Context(), key, left+handSlack).Err()
		}
		if err != nil {
			s.t.Fatalf("let %v pass for %q: %v", d, key, err)
		}
	}
}

var prefixes atomic.Int64

// newStore makes a RedisStore with a prefix of its own and a timeout that only a
// test that hangs can reach.
func newStore(t testing.TB, client priority.RedisClient, r rule) *priority.RedisStore {
	t.Helper()
	return openStore(t, client, &priority.RedisOptions{
		Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf,
		Prefix: fmt.Sprint("test", prefixes.Add(1)), Timeout: time.Minute,
	})
}

func openStore(t testing.TB, client priority.RedisClient, opts *priority.RedisOptions) *priority.RedisStore {
	t.Helper()
	store, err := priority.NewRedisStore(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// patient are options of a store on the default keys, without a timeout.
var patient = &priority.RedisOptions{Timeout: -1}

// connect makes a client, closed with the test.
func connect(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// onEachServer runs a test on miniredis and on a real server.
func onEachServer(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, connect(t, miniredis.RunT(t).Addr()))
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Client())
	})
}

// wire is a hook that notes what a client sends.
type wire struct {
	mu    sync.Mutex
	trips [][]redis.Cmder // the commands of each round trip
}

func (w *wire) sent(cmds ...redis.Cmder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trips = append(w.trips, cmds)
}

// take returns the round trips since the last take.
func (w *wire) take() [][]redis.Cmder {
	w.mu.Lock()
	defer w.mu.Unlock()
	trips := w.trips
	w.trips = nil
	return trips
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return next(ctx, network, addr)
	}
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.sent(cmd)
		return next(ctx, cmd)
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.sent(cmds...)
		return next(ctx, cmds)
	}
}

// oddCustomers are customers that would share a key, or a hash tag, or be cut
// short, where a key is made without care.
var oddCustomers = []string{
	"acme", "Acme", "acme ", " acme",
	"{", "}", "{}", "}{", "{{", "}}", "{acme}", "acme}", "{acme", "a}b", "a{b",
	"%", "%%", "%25", "%7D", "%7d", "%257D", "a%7Db", "a%b", "%s", "%!d",
	"acme}:count", "acme:count", ":", "acme:{x}",
	"\x00", "a\x00", "a\x00b", "\n", "\r\n", "a\r\nb", "*1\r\n$4\r\nPING\r\n", "\t", " ",
	"\xff", "\xfe\xff", "a\xffb", "\xc3\x28", "\xed\xa0\x80", "ü", "u\u0308", "客户", "\U0001F4C4",
	"\"", "'", "\\", "0", "-1", "]]", "--", "nil",
	strings.Repeat("x", 511), strings.Repeat("x", 512), strings.Repeat("}", 512), strings.Repeat("\x00", 512),
}
