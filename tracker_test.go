package priority_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// lease is that of the tests that do not choose one.
const lease = 900 * time.Second

// leased is what the options of all trackers have in common.
type leased struct {
	rule
	lease time.Duration // 0: lease
}

func (l leased) leaseOf() time.Duration {
	if l.lease == 0 {
		return lease
	}
	return l.lease
}

// tracking is a tracker and the time that its counts and leases live in.
type tracking struct {
	priority.Tracker
	wait  func(time.Duration) // lets time pass
	slack time.Duration       // by how much ResetIn may be off
}

// trackerOpener makes a tracker without counts.
type trackerOpener func(t *testing.T, l leased) *tracking

func (w *tracking) agree(got, want priority.Decision) bool {
	return (&world{slack: w.slack}).agree(got, want)
}

func (w *tracking) agreeAll(got, want []priority.Decision) bool {
	return slices.EqualFunc(got, want, w.agree)
}

// pending is the default policy's decision at a count with some documents
// pending.
func pending(count, documents int64) priority.Decision {
	decision := counted(count)
	decision.Pending = documents
	decision.Level = (decision.Level + levels[max(0, min(documents-1, 30))] + 1) / 2
	return decision
}

// none is the decision of a customer without a count.
func none(documents int64) priority.Decision {
	return left(0, pending(0, documents))
}

// The checks below fail the test unless a call works and answers as wanted.

func (w *tracking) submit(t testing.TB, customer, document string, want priority.Decision) {
	t.Helper()
	got, err := w.Submit(t.Context(), customer, document)
	if err != nil || !w.agree(got, want) {
		t.Fatalf("Submit(%q, %q) = %+v, %v, want %+v", brief(customer), brief(document), got, err, want)
	}
}

func (w *tracking) submitN(t testing.TB, customer string, documents []string, want ...priority.Decision) {
	t.Helper()
	got, err := w.SubmitN(t.Context(), customer, documents)
	if err != nil || !w.agreeAll(got, want) {
		t.Fatalf("SubmitN(%q, %s): error %v, decisions %.500s, want %.500s", brief(customer), brief(fmt.Sprintf("%q", documents)), err, fmt.Sprint(got), fmt.Sprint(want))
	}
}

func (w *tracking) done(t testing.TB, customer string, documents ...string) {
	t.Helper()
	for _, document := range documents {
		if err := w.Done(t.Context(), customer, document); err != nil {
			t.Fatalf("Done(%q, %q) = %v", brief(customer), brief(document), err)
		}
	}
}

func (w *tracking) doneN(t testing.TB, customer string, documents ...string) {
	t.Helper()
	if err := w.DoneN(t.Context(), customer, documents); err != nil {
		t.Fatalf("DoneN(%q, %s) = %v", brief(customer), brief(fmt.Sprintf("%q", documents)), err)
	}
}

func (w *tracking) peek(t testing.TB, customer string, want priority.Decision) {
	t.Helper()
	got, err := w.Peek(t.Context(), customer)
	if err != nil || !w.agree(got, want) {
		t.Fatalf("Peek(%q) = %+v, %v, want %+v", brief(customer), got, err, want)
	}
}

func (w *tracking) reset(t testing.TB, customer string) {
	t.Helper()
	if err := w.Reset(t.Context(), customer); err != nil {
		t.Fatalf("Reset(%q) = %v", brief(customer), err)
	}
}

// documentIDs are the ids of n documents.
func documentIDs(name string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(name, " ", i)
	}
	return ids
}

// submitted are the decisions of n new documents, from a count and a number of
// pending documents on.
func submitted(count, documents int64, n int) []priority.Decision {
	decisions := make([]priority.Decision, n)
	for i := range decisions {
		decisions[i] = pending(count-int64(i), documents+int64(i))
	}
	return decisions
}

// trackMemory makes a MemoryTracker with a clock that is moved.
func trackMemory(t *testing.T, l leased) *tracking {
	t.Helper()
	now := start
	tracker, err := priority.NewMemoryTracker(&priority.MemoryOptions{
		Policy: l.policy, Tiers: l.tiers, TierOf: l.tierOf, Lease: l.leaseOf(),
		Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &tracking{Tracker: tracker, wait: func(d time.Duration) { now = now.Add(d) }}
}

// trackMiniredis makes RedisTrackers on one miniredis, the clock of which is
// moved. They share it, so they are used one after another.
//
// A key with a TTL is still there exactly that long later in Redis, but not in
// miniredis. So its clock loses a nanosecond in every pause: of so little no test
// sees anything in whole milliseconds, as the clock starts in the middle of one.
func trackMiniredis(t *testing.T) trackerOpener {
	t.Helper()
	return trackMiniredisOn(t, miniredis.RunT(t))
}

func trackMiniredisOn(t *testing.T, server *miniredis.Miniredis) trackerOpener {
	t.Helper()
	now := start.Add(900 * time.Microsecond)
	server.SetTime(now)
	server.ClockTTL(true)
	client := connect(t, server.Addr())
	return func(t *testing.T, l leased) *tracking {
		t.Helper()
		return &tracking{Tracker: newTracker(t, client, l), wait: func(d time.Duration) {
			now = now.Add(d - time.Nanosecond)
			server.SetTime(now)
		}}
	}
}

// trackServer makes RedisTrackers on a client of real servers, and lets time pass
// for them by hand, through a client that may be another one.
func trackServer(client priority.RedisClient, hand redis.Cmdable) trackerOpener {
	return func(t *testing.T, l leased) *tracking {
		t.Helper()
		tracker := &handTracker{
			RedisTracker: newTracker(t, client, l), t: t, hand: hand, leased: l,
			counts: make(map[string]time.Duration), leases: make(map[string]map[string]time.Duration),
		}
		return &tracking{Tracker: tracker, wait: tracker.wait, slack: handSlack}
	}
}

// handTracker is a RedisTracker on a real server. The server's clock cannot be
// moved, so the tracker notes when each count and each lease is over, and when
// time is to pass it moves them: what is overdue by as much as it is overdue, and
// what is not with a slack, so that it stays until the test comes to it.
type handTracker struct {
	*priority.RedisTracker
	t      *testing.T
	hand   redis.Cmdable
	leased leased
	now    time.Duration
	counts map[string]time.Duration            // the last moment of each customer's count
	leases map[string]map[string]time.Duration // the last moment of each document's lease
}

func (h *handTracker) Submit(ctx context.Context, customer, document string) (priority.Decision, error) {
	h.note(customer, document)
	return h.RedisTracker.Submit(ctx, customer, document)
}

func (h *handTracker) SubmitN(ctx context.Context, customer string, documents []string) ([]priority.Decision, error) {
	h.note(customer, documents...)
	return h.RedisTracker.SubmitN(ctx, customer, documents)
}

func (h *handTracker) Reset(ctx context.Context, customer string) error {
	delete(h.counts, customer)
	delete(h.leases, customer)
	return h.RedisTracker.Reset(ctx, customer)
}

func (h *handTracker) note(customer string, documents ...string) {
	leases := h.leases[customer]
	if leases == nil {
		leases = make(map[string]time.Duration)
		h.leases[customer] = leases
	}
	for _, document := range documents {
		if until, held := leases[document]; !held || until < h.now {
			until, running := h.counts[customer]
			if !running || until < h.now || h.leased.policyOf(customer).ResetMode == priority.SinceLastUpdate {
				h.counts[customer] = h.now + h.leased.intervalOf(customer)
			}
		}
		leases[document] = h.now + h.leased.leaseOf()
	}
}

func (h *handTracker) Done(ctx context.Context, customer, document string) error {
	delete(h.leases[customer], document)
	return h.RedisTracker.Done(ctx, customer, document)
}

func (h *handTracker) DoneN(ctx context.Context, customer string, documents []string) error {
	for _, document := range documents {
		delete(h.leases[customer], document)
	}
	return h.RedisTracker.DoneN(ctx, customer, documents)
}

func (h *handTracker) wait(d time.Duration) {
	h.t.Helper()
	ctx := h.t.Context()
	h.now += d
	for customer, until := range h.counts {
		key, remains := h.Key(customer), until-h.now
		err := h.hand.PExpire(ctx, key, remains+handSlack).Err()
		if remains < 0 {
			delete(h.counts, customer)
			err = h.hand.Del(ctx, key).Err()
		}
		if err != nil {
			h.t.Fatalf("let %v pass for %q: %v", d, key, err)
		}
	}
	for customer, leases := range h.leases {
		key := h.PendingKey(customer)
		var moved []redis.Z
		latest := time.Duration(-1)
		for document, until := range leases {
			remains := until - h.now
			if remains >= 0 {
				latest = max(latest, remains)
				remains += handSlack
			}
			moved = append(moved, redis.Z{
				Score: float64(time.Now().UnixMilli() + remains.Milliseconds()), Member: document,
			})
		}
		if len(moved) == 0 {
			continue
		}
		// XX: an overdue document may have been cleared already.
		err := h.hand.ZAddXX(ctx, key, moved...).Err()
		if err == nil && latest >= 0 {
			err = h.hand.PExpire(ctx, key, latest+handSlack).Err()
		}
		if err != nil {
			h.t.Fatalf("let %v pass for %q: %v", d, key, err)
		}
	}
}

// newTracker makes a RedisTracker with a prefix of its own and a timeout that
// only a test that hangs can reach.
func newTracker(t testing.TB, client priority.RedisClient, l leased) *priority.RedisTracker {
	t.Helper()
	return openTracker(t, client, &priority.RedisOptions{
		Policy: l.policy, Tiers: l.tiers, TierOf: l.tierOf, Lease: l.leaseOf(),
		Prefix: fmt.Sprint("test", prefixes.Add(1)), Timeout: time.Minute,
	})
}

func openTracker(t testing.TB, client priority.RedisClient, opts *priority.RedisOptions) *priority.RedisTracker {
	t.Helper()
	tracker, err := priority.NewRedisTracker(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	return tracker
}

// trackers are all kinds of tracker, and the kinds of client under a
// RedisTracker that differ in how they send a command.
var trackers = []struct {
	name  string
	start func(t *testing.T) trackerOpener
}{
	{"MemoryTracker", func(*testing.T) trackerOpener { return trackMemory }},
	{"miniredis", func(*testing.T) trackerOpener {
		// Tests that run at the same time must not move the clock of each other.
		return func(t *testing.T, l leased) *tracking { return trackMiniredis(t)(t, l) }
	}},
	{"Client", func(t *testing.T) trackerOpener {
		client := redistest.Start(t).Client()
		return trackServer(client, client)
	}},
	{"AutoPipeline", func(t *testing.T) trackerOpener {
		client := redistest.Start(t).Client()
		return trackServer(must(client.AutoPipeline())(t), client)
	}},
	{"ClusterClient", func(t *testing.T) trackerOpener {
		client := redistest.StartCluster(t, 3).Client()
		return trackServer(client, client)
	}},
	{"cluster AutoPipeline", func(t *testing.T) trackerOpener {
		client := redistest.StartCluster(t, 3).Client()
		return trackServer(must(client.AutoPipeline())(t), client)
	}},
}

// TestTracker holds every tracker to the same contract.
func TestTracker(t *testing.T) {
	t.Parallel()
	for _, kind := range trackers {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			open := kind.start(t)
			for _, test := range []struct {
				name string
				run  func(t *testing.T, open trackerOpener)
			}{
				{"Submit", testSubmit},
				{"level", testTrackedLevel},
				{"delivered again", testDeliveredAgain},
				{"SubmitN", testSubmitN},
				{"Done", testDone},
				{"DoneN", testDoneN},
				{"lease", testLease},
				{"lease renewed", testLeaseRenewed},
				{"many leases over", testManyLeasesOver},
				{"Peek", testTrackerPeek},
				{"Reset", testTrackerReset},
				{"reset modes", testTrackerResetModes},
				{"custom policies", testTrackerPolicies},
				{"longest lease", testLongestLease},
				{"tiers", testTrackerTiers},
				{"odd ids", testOddIDs},
				{"nothing to do", testNothingToTrack},
				{"bad input", testTrackerBadInput},
			} {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(t, open)
				})
			}
		})
	}
}

func testSubmit(t *testing.T, open trackerOpener) {
	w := open(t, leased{})
	for i, id := range documentIDs("invoice", 40) {
		w.submit(t, "acme", id, pending(-int64(i), int64(i)+1))
	}
	w.submit(t, "globex", "invoice 0", pending(0, 1)) // the id is another customer's too
	w.submit(t, "acme", "another", pending(-40, 41))
	w.submit(t, "acme", "Another", pending(-41, 42))
}

// The level is the mean of the rule's and of the pending documents', rounded up.
func testTrackedLevel(t *testing.T, open trackerOpener) {
	w := open(t, leased{lease: 3 * time.Hour})
	ids := documentIDs("invoice", 30)
	w.submitN(t, "acme", ids, submitted(0, 1, 30)...)
	for i, id := range ids {
		w.done(t, "acme", id)
		w.peek(t, "acme", pending(-29, int64(29-i)))
	}
	for n, level := range []priority.Level{5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 9, 9} {
		want := pending(-int64(30+n), int64(1+n))
		want.Level = level // written out, lest the test's own arithmetic be wrong
		w.submit(t, "acme", ids[n], want)
	}

	// The other way about: pending for longer than the count lasts.
	w.wait(quiet + time.Millisecond)
	w.peek(t, "acme", none(17))
	for n, level := range []priority.Level{5, 5, 5, 5, 6, 6, 6, 7, 7, 7} {
		want := pending(-int64(n), int64(18+n))
		want.Level = level
		w.submit(t, "acme", fmt.Sprint("new ", n), want)
	}
}

func testDeliveredAgain(t *testing.T, open trackerOpener) {
	w := open(t, leased{lease: 2 * time.Hour})
	w.submit(t, "acme", "a", pending(0, 1))
	w.submit(t, "acme", "b", pending(-1, 2))
	for range 30 {
		w.submit(t, "acme", "a", pending(-1, 2))
		w.submit(t, "acme", "b", pending(-1, 2))
	}
	w.submit(t, "acme", "c", pending(-2, 3))

	// It is no update of the count: the interval goes on.
	w.wait(1000 * time.Second)
	w.submit(t, "acme", "a", left(500*time.Second, pending(-2, 3)))
	w.wait(500 * time.Second)
	w.submit(t, "acme", "a", left(0, pending(-2, 3)))
	w.wait(time.Millisecond)
	w.submit(t, "acme", "a", none(3)) // and begins no count
	w.peek(t, "acme", none(3))
	w.submit(t, "acme", "d", pending(0, 4))
}

func testSubmitN(t *testing.T, open trackerOpener) {
	w := open(t, leased{})
	w.submitN(t, "acme", []string{"a"}, pending(0, 1))
	w.submitN(t, "acme", []string{"b", "a", "c", "b", "c"},
		pending(-1, 2), pending(-1, 2), pending(-2, 3), pending(-2, 3), pending(-2, 3))
	w.submitN(t, "acme", []string{"a", "a"}, pending(-2, 3), pending(-2, 3))
	w.done(t, "acme", "b")
	w.submitN(t, "acme", []string{"a", "b", "b"}, pending(-2, 2), pending(-3, 3), pending(-3, 3))

	// More than any script call takes, some of them pending and some named twice.
	ids := documentIDs("invoice", 334)
	w.submitN(t, "globex", ids[:120], submitted(0, 1, 120)...)
	want := slices.Repeat([]priority.Decision{pending(-119, 120)}, 120)
	want = append(want, submitted(-120, 121, 214)...)
	want = append(want, slices.Repeat([]priority.Decision{pending(-333, 334)}, 334)...)
	w.submitN(t, "globex", append(ids, ids...), want...)
	w.peek(t, "globex", pending(-333, 334))

	// All of the documents have what is left of the interval.
	w = open(t, leased{rule: rule{policy: priority.Policy{ResetMode: priority.SinceLastReset}}, lease: time.Hour})
	w.submit(t, "acme", "a", pending(0, 1))
	w.wait(1000 * time.Second)
	const rest = 500 * time.Second
	w.submitN(t, "acme", []string{"a", "b", "c"}, left(rest, pending(0, 1)), left(rest, pending(-1, 2)), left(rest, pending(-2, 3)))

	// A pending document comes before one that starts the count afresh.
	w.wait(rest + time.Millisecond)
	got, err := w.SubmitN(t.Context(), "acme", []string{"a", "d", "a"})
	if err != nil || len(got) != 3 || got[0].Count != 0 || got[0].Pending != 3 || !w.agreeAll(got[1:], []priority.Decision{pending(0, 4), pending(0, 4)}) {
		t.Errorf("SubmitN = %+v, %v", got, err)
	}
	w.submit(t, "acme", "e", pending(-1, 5))
}

func testDone(t *testing.T, open trackerOpener) {
	w := open(t, leased{})
	w.done(t, "acme", "a") // of a customer nobody knows
	w.peek(t, "acme", none(0))
	w.submitN(t, "acme", []string{"a", "b", "c"}, submitted(0, 1, 3)...)
	w.submit(t, "globex", "a", pending(0, 1))
	w.done(t, "acme", "b")
	w.peek(t, "acme", pending(-2, 2))
	w.done(t, "acme", "b", "b", "unknown", "B", "a ") // twice, and of none
	w.done(t, "initech", "a")
	w.peek(t, "acme", pending(-2, 2))
	w.peek(t, "globex", pending(0, 1))
	w.submit(t, "acme", "d", pending(-3, 3))
	w.submit(t, "acme", "b", pending(-4, 4)) // done before: a new one
	w.done(t, "acme", "a", "b", "c", "d")
	w.peek(t, "acme", pending(-4, 0))
	w.done(t, "acme", "a")
	w.submit(t, "acme", "a", pending(-5, 1))

	// Done says nothing about the count and its interval.
	w.wait(1000 * time.Second)
	w.submit(t, "initech", "a", pending(0, 1))
	w.wait(500 * time.Second)
	w.done(t, "acme", "a")
	w.done(t, "initech", "a")
	w.peek(t, "acme", left(0, pending(-5, 0)))
	w.peek(t, "initech", left(1000*time.Second, pending(0, 0)))
}

func testDoneN(t *testing.T, open trackerOpener) {
	w := open(t, leased{})
	w.doneN(t, "acme", "a", "b")
	w.peek(t, "acme", none(0))
	w.submitN(t, "acme", []string{"a", "b", "c", "d"}, submitted(0, 1, 4)...)
	w.submitN(t, "globex", []string{"a", "b"}, submitted(0, 1, 2)...)
	w.doneN(t, "acme", "b", "unknown", "b", "d")
	w.peek(t, "acme", pending(-3, 2))
	w.doneN(t, "acme", "b", "d")
	w.peek(t, "acme", pending(-3, 2))
	w.peek(t, "globex", pending(-1, 2))

	// More than any script call takes.
	ids := documentIDs("invoice", 700)
	w.submitN(t, "initech", ids, submitted(0, 1, len(ids))...)
	w.doneN(t, "initech", ids[1:]...)
	w.peek(t, "initech", pending(-699, 1))
	w.doneN(t, "initech", ids...)
	w.peek(t, "initech", pending(-699, 0))
}

func testLease(t *testing.T, open trackerOpener) {
	const ms = time.Millisecond
	w := open(t, leased{})
	w.submit(t, "acme", "a", pending(0, 1))
	w.wait(ms)
	w.submit(t, "acme", "b", pending(-1, 2))
	w.wait(lease - ms)
	w.peek(t, "acme", left(quiet-lease+ms, pending(-1, 2))) // exactly at its end
	w.wait(ms)
	w.peek(t, "acme", left(quiet-lease, pending(-1, 1)))
	w.done(t, "acme", "a") // forgotten already
	w.peek(t, "acme", left(quiet-lease, pending(-1, 1)))
	w.wait(ms)
	w.peek(t, "acme", left(quiet-lease-ms, pending(-1, 0)))
	w.done(t, "acme", "b")
	w.submit(t, "acme", "a", pending(-2, 1)) // a new one
	w.wait(lease + ms)
	w.submit(t, "acme", "c", pending(-3, 1))
	w.submit(t, "acme", "a", pending(-4, 2))

	// A document that is submitted when its lease is over, or one of many.
	w.wait(lease)
	w.submit(t, "acme", "c", left(quiet-lease, pending(-4, 2)))
	w.wait(ms)
	w.submit(t, "acme", "a", pending(-5, 2))
	w.wait(lease + ms)
	w.submitN(t, "acme", []string{"a", "c", "a"}, pending(-6, 1), pending(-7, 2), pending(-7, 2))

	// Another lease.
	for _, lease := range []time.Duration{5 * time.Minute, quiet, 3 * quiet} {
		w = open(t, leased{lease: lease})
		w.submit(t, "acme", "a", pending(0, 1))
		w.wait(lease)
		if got, err := w.Peek(t.Context(), "acme"); err != nil || got.Pending != 1 {
			t.Errorf("at the end of a lease of %v: %+v, %v", lease, got, err)
		}
		w.wait(ms)
		if got, err := w.Peek(t.Context(), "acme"); err != nil || got.Pending != 0 {
			t.Errorf("after a lease of %v: %+v, %v", lease, got, err)
		}
	}
}

func testLeaseRenewed(t *testing.T, open trackerOpener) {
	const ms = time.Millisecond
	w := open(t, leased{})
	w.submitN(t, "acme", []string{"a", "b"}, submitted(0, 1, 2)...)
	for i := range 5 {
		w.wait(lease)
		want := left(max(0, quiet-time.Duration(i+1)*lease), pending(-1, 2))
		if i > 0 {
			want = none(2)
		}
		w.submitN(t, "acme", []string{"a", "b"}, want, want)
	}
	w.wait(lease)
	w.submit(t, "acme", "b", none(2)) // not the other one
	w.wait(ms)
	w.peek(t, "acme", none(1))
	w.submit(t, "acme", "a", pending(0, 2))
	w.wait(lease - ms)
	w.peek(t, "acme", left(quiet-lease+ms, pending(0, 2)))
	w.wait(ms)
	w.peek(t, "acme", left(quiet-lease, pending(0, 1)))
	w.wait(ms)
	w.peek(t, "acme", left(quiet-lease-ms, pending(0, 0)))
}

// Leases that are over count for nothing, however many there are, and none of
// them comes back.
func testManyLeasesOver(t *testing.T, open trackerOpener) {
	w := open(t, leased{})
	old := documentIDs("old", 400)
	w.submitN(t, "acme", old, submitted(0, 1, 400)...)
	w.wait(lease / 2)
	w.submitN(t, "acme", []string{"a", "b"}, submitted(-400, 401, 2)...)
	w.wait(lease/2 + time.Millisecond)
	w.peek(t, "acme", left(quiet-lease/2-time.Millisecond, pending(-401, 2)))
	w.submit(t, "acme", "c", pending(-402, 3))
	w.done(t, "acme", "b")
	w.submit(t, "acme", old[399], pending(-403, 3))
	w.submitN(t, "acme", []string{old[398], "a", old[399], old[3]},
		pending(-404, 4), pending(-404, 4), pending(-404, 4), pending(-405, 5))
	w.doneN(t, "acme", old...)
	w.peek(t, "acme", pending(-405, 2))
}

func testTrackerPeek(t *testing.T, open trackerOpener) {
	w := open(t, leased{})
	w.peek(t, "acme", none(0))
	w.peek(t, "acme", none(0))
	w.submitN(t, "acme", documentIDs("invoice", 30), submitted(0, 1, 30)...)
	w.peek(t, "globex", none(0))
	for range 3 {
		w.peek(t, "acme", pending(-29, 30))
	}
	w.wait(lease)
	w.peek(t, "acme", left(quiet-lease, pending(-29, 30)))
	w.wait(time.Millisecond) // as if nobody had looked
	w.peek(t, "acme", left(quiet-lease-time.Millisecond, pending(-29, 0)))
	w.wait(quiet - lease - time.Millisecond)
	w.peek(t, "acme", left(0, pending(-29, 0)))
	w.submit(t, "acme", "another", pending(-30, 1))
	w.wait(quiet + time.Millisecond)
	w.peek(t, "acme", none(0))
}

func testTrackerReset(t *testing.T, open trackerOpener) {
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		w := open(t, leased{rule: rule{policy: priority.Policy{ResetMode: mode}}})
		w.reset(t, "acme") // nothing to forget
		ids := documentIDs("invoice", 25)
		w.submitN(t, "acme", ids, submitted(0, 1, 25)...)
		w.submit(t, "globex", ids[0], pending(0, 1))
		w.wait(800 * time.Second)
		w.reset(t, "acme")
		w.peek(t, "acme", none(0))
		w.done(t, "acme", ids[0])
		w.submitN(t, "acme", ids[:2], submitted(0, 1, 2)...) // with whole intervals and leases again
		w.peek(t, "globex", left(700*time.Second, pending(0, 1)))
		w.wait(lease)
		w.peek(t, "acme", left(quiet-lease, pending(-1, 2)))
		w.peek(t, "globex", none(0))

		// Without a count, or without pending documents.
		w.doneN(t, "acme", ids...)
		w.reset(t, "acme")
		w.peek(t, "acme", none(0))
		w.submit(t, "acme", "a", pending(0, 1))
	}
}

func testTrackerResetModes(t *testing.T, open trackerOpener) {
	const ms = time.Millisecond
	w := open(t, leased{lease: ms})
	w.submit(t, "acme", "a", pending(0, 1))
	w.wait(quiet)
	w.submit(t, "acme", "b", pending(-1, 1))
	w.wait(quiet)
	w.submit(t, "acme", "c", pending(-2, 1))
	w.wait(quiet + ms)
	w.submit(t, "acme", "d", pending(0, 1))

	const long = 24 * time.Hour
	w = open(t, leased{rule: rule{policy: priority.Policy{ResetMode: priority.SinceLastReset}}, lease: long})
	w.submit(t, "acme", "a", pending(0, 1))
	w.wait(quiet / 3)
	w.submit(t, "acme", "b", left(quiet*2/3, pending(-1, 2)))
	w.submit(t, "acme", "a", left(quiet*2/3, pending(-1, 2)))
	w.wait(quiet * 2 / 3)
	w.submit(t, "acme", "c", left(0, pending(-2, 3)))
	w.wait(ms)
	w.submit(t, "acme", "d", pending(0, 4))
	// Who never pauses is reset all the same.
	for range 3 {
		w.wait(quiet)
		w.submit(t, "acme", fmt.Sprint("e ", prefixes.Add(1)), left(0, pending(-1, w.pending(t, "acme")+1)))
		w.wait(ms)
		w.submit(t, "acme", fmt.Sprint("f ", prefixes.Add(1)), pending(0, w.pending(t, "acme")+1))
	}
}

func (w *tracking) pending(t testing.TB, customer string) int64 {
	t.Helper()
	decision, err := w.Peek(t.Context(), customer)
	if err != nil {
		t.Fatal(err)
	}
	return decision.Pending
}

func testTrackerPolicies(t *testing.T, open trackerOpener) {
	for _, edge := range edgePolicies {
		policy := priority.Policy{Thresholds: edge.thresholds, ResetInterval: 2 * time.Hour}
		w := open(t, leased{rule: rule{policy: policy}, lease: 3 * time.Hour})
		decided := func(count, pending int64) priority.Decision {
			return priority.Decision{
				Level: (policy.Level(count) + policy.Level(1-pending) + 1) / 2,
				Count: count, Pending: pending, ResetIn: 2 * time.Hour,
			}
		}
		w.peek(t, "acme", left(0, decided(0, 0)))
		ids := documentIDs("invoice", 300)
		for i, id := range ids[:20] {
			w.submit(t, "acme", id, decided(-int64(i), int64(i)+1))
		}
		w.doneN(t, "acme", ids[:18]...)
		w.peek(t, "acme", decided(-19, 2))
		var want []priority.Decision
		for i := range ids[20:] {
			want = append(want, decided(-int64(20+i), int64(3+i)))
		}
		w.submitN(t, "acme", ids[20:], want...)
	}
}

func testLongestLease(t *testing.T, open trackerOpener) {
	w := open(t, leased{
		rule:  rule{policy: priority.Policy{ResetInterval: longestInterval}},
		lease: longestInterval,
	})
	w.submit(t, "acme", "a", left(longestInterval, pending(0, 1)))
	w.submit(t, "acme", "b", left(longestInterval, pending(-1, 2)))
	w.done(t, "acme", "a")
	w.peek(t, "acme", left(longestInterval, pending(-1, 1)))
}

func testTrackerTiers(t *testing.T, open trackerOpener) {
	const gold = 3 * time.Hour
	w := open(t, leased{lease: 2 * gold, rule: rule{
		policy: priority.Policy{Thresholds: []int64{-1, -2, -3}, ResetInterval: time.Hour},
		tiers: map[string]priority.Policy{
			"gold":   {Thresholds: []int64{-3, -4}, ResetInterval: gold, ResetMode: priority.SinceLastReset},
			"silver": {}, // all of it the default
		},
		tierOf: func(customer string) string {
			tier, _, _ := strings.Cut(customer, " ")
			return tier
		},
	}})
	decided := func(level priority.Level, count, pending int64, resetIn time.Duration) priority.Decision {
		return priority.Decision{Level: level, Count: count, Pending: pending, ResetIn: resetIn}
	}
	for i, want := range []struct{ other, gold, silver priority.Level }{
		{1, 1, 1}, {1, 1, 1}, {2, 1, 1}, {3, 1, 2}, {4, 2, 2}, {4, 3, 3},
	} {
		count, n, id := -int64(i), int64(i+1), fmt.Sprint("invoice ", i)
		w.submit(t, "acme", id, decided(want.other, count, n, time.Hour))
		w.submit(t, "bronze acme", id, decided(want.other, count, n, time.Hour)) // no such tier
		w.submit(t, "gold acme", id, decided(want.gold, count, n, gold))
		w.submitN(t, "silver acme", []string{id}, decided(want.silver, count, n, quiet))
	}
	w.peek(t, "gold acme", decided(3, -5, 6, gold))
	w.wait(gold + time.Millisecond)
	w.peek(t, "gold acme", decided(2, 0, 6, 0))
	w.peek(t, "silver acme", decided(2, 0, 6, 0))
	w.submit(t, "acme", "another", decided(3, 0, 7, time.Hour))
}

// oddDocuments are ids that a script or a sorted set could take for something
// else.
var oddDocuments = append(slices.Clone(oddCustomers),
	"-inf", "+inf", "(1", "[a", "1e400", "NX", "XX", "GT", "INCR", "1700000000000", "0.0", "-0", "1.0", "count", "priority:{acme}:pending")

func testOddIDs(t *testing.T, open trackerOpener) {
	w := open(t, leased{})
	for _, customer := range oddCustomers {
		w.submit(t, customer, "same", pending(0, 1))
		w.submit(t, customer, customer, pending(-1, 2))
	}
	n := len(oddDocuments)
	w.submitN(t, "odd", oddDocuments, submitted(0, 1, n)...)
	for _, id := range oddDocuments {
		w.submit(t, "odd", id, pending(int64(1-n), int64(n)))
	}
	for i, id := range oddDocuments {
		w.done(t, "odd", id)
		w.peek(t, "odd", pending(int64(1-n), int64(n-1-i)))
	}
	for i, id := range oddDocuments {
		w.submit(t, "odd", id, pending(int64(-n-i), int64(i+1)))
	}
	w.doneN(t, "odd", oddDocuments...)
	w.peek(t, "odd", pending(int64(1-2*n), 0))

	// Each customer is forgotten alone.
	for i, customer := range oddCustomers {
		if i%2 == 0 {
			w.reset(t, customer)
		} else {
			w.done(t, customer, customer)
		}
	}
	for i, customer := range oddCustomers {
		want := pending(-1, 1)
		if i%2 == 0 {
			want = none(0)
		}
		w.peek(t, customer, want)
	}
}

func testNothingToTrack(t *testing.T, open trackerOpener) {
	w := open(t, leased{})
	w.submit(t, "acme", "a", pending(0, 1))
	for _, none := range [][]string{nil, {}} {
		if got, err := w.SubmitN(t.Context(), "acme", none); len(got) != 0 || err != nil {
			t.Errorf("SubmitN of none = %v, %v", got, err)
		}
		if err := w.DoneN(t.Context(), "acme", none); err != nil {
			t.Errorf("DoneN of none = %v", err)
		}
	}
	w.submitN(t, "globex", nil)
	w.peek(t, "globex", none(0))
	w.peek(t, "acme", pending(0, 1))
}

// invalidDocuments are what no call takes, and what the error's message must
// show.
var invalidDocuments = []struct{ document, shown string }{
	{"", "0 bytes"},
	{strings.Repeat("x", 513), "513"},
	{strings.Repeat("ü", 257), "514"},
	{strings.Repeat("\x00", 100_000), "100000"},
}

// trackerCalls are all calls about a customer and a document, by name.
func trackerCalls(t testing.TB, tracker priority.Tracker, customer, document string) map[string]func() error {
	return map[string]func() error{
		"Submit":  func() error { _, err := tracker.Submit(t.Context(), customer, document); return err },
		"SubmitN": func() error { _, err := tracker.SubmitN(t.Context(), customer, []string{document}); return err },
		"Done":    func() error { return tracker.Done(t.Context(), customer, document) },
		"DoneN":   func() error { return tracker.DoneN(t.Context(), customer, []string{document}) },
	}
}

func testTrackerBadInput(t *testing.T, open trackerOpener) {
	w := open(t, leased{})
	w.submit(t, "acme", "a", pending(0, 1))
	for _, bad := range invalidCustomers {
		calls := trackerCalls(t, w, bad.customer, "a")
		calls["Peek"] = func() error { _, err := w.Peek(t.Context(), bad.customer); return err }
		calls["Reset"] = func() error { return w.Reset(t.Context(), bad.customer) }
		calls["SubmitN of none"] = func() error { _, err := w.SubmitN(t.Context(), bad.customer, nil); return err }
		calls["DoneN of none"] = func() error { return w.DoneN(t.Context(), bad.customer, nil) }
		for name, call := range calls {
			t.Run(fmt.Sprintf("%s/customer of %d bytes", name, len(bad.customer)), func(t *testing.T) {
				wantInvalid(t, call(), priority.ErrInvalidCustomer, bad.shown)
			})
		}
	}
	for _, bad := range invalidDocuments {
		for name, call := range trackerCalls(t, w, "acme", bad.document) {
			t.Run(fmt.Sprintf("%s/document of %d bytes", name, len(bad.document)), func(t *testing.T) {
				wantInvalid(t, call(), priority.ErrInvalidDocument, bad.shown)
			})
		}

		// One bad id among good ones: none is submitted, and none is done.
		ids := documentIDs("invoice", 1400)
		ids[0], ids[1234] = "a", bad.document
		got, err := w.SubmitN(t.Context(), "acme", ids)
		wantInvalid(t, err, priority.ErrInvalidDocument, "1234")
		if len(got) != 0 {
			t.Errorf("%d decisions beside the error %v", len(got), err)
		}
		wantInvalid(t, w.DoneN(t.Context(), "acme", ids), priority.ErrInvalidDocument, "1234")
	}
	many := slices.Repeat([]string{"a"}, 1_000_001)
	got, err := w.SubmitN(t.Context(), "acme", many)
	wantInvalid(t, err, priority.ErrInvalidCount, "1000001")
	if len(got) != 0 {
		t.Errorf("SubmitN of too many: %d decisions beside the error %v", len(got), err)
	}
	wantInvalid(t, w.DoneN(t.Context(), "acme", many), priority.ErrInvalidCount, "1000001")
	w.submit(t, "acme", "b", pending(-1, 2)) // nothing came of all that
}

// TestInvalidTrackerOptions gives the constructors what they must refuse.
func TestInvalidTrackerOptions(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	for name, test := range map[string]struct {
		leased
		kind  error
		shown string
	}{
		"tiers without TierOf": {leased{rule: rule{tiers: map[string]priority.Policy{"gold": {}}}}, priority.ErrInvalidOption, "TierOf"},
		"policy":               {leased{rule: rule{policy: priority.Policy{ResetInterval: -1}}}, priority.ErrInvalidPolicy, "ResetInterval"},
		"negative lease":       {leased{lease: -time.Second}, priority.ErrInvalidOption, "Lease -1s"},
		"short lease":          {leased{lease: time.Microsecond}, priority.ErrInvalidOption, "Lease 1µs"},
		"uneven lease":         {leased{lease: time.Second + time.Microsecond}, priority.ErrInvalidOption, "Lease 1.000001s"},
	} {
		t.Run(name, func(t *testing.T) {
			tracker, err := priority.NewRedisTracker(client, &priority.RedisOptions{
				Policy: test.policy, Tiers: test.tiers, TierOf: test.tierOf, Lease: test.lease,
			})
			wantInvalid(t, err, test.kind, test.shown)
			if tracker != nil {
				t.Error("a tracker beside the error")
			}
			memory, err := priority.NewMemoryTracker(&priority.MemoryOptions{
				Policy: test.policy, Tiers: test.tiers, TierOf: test.tierOf, Lease: test.lease,
			})
			wantInvalid(t, err, test.kind, test.shown)
			if memory != nil {
				t.Error("a tracker beside the error")
			}
		})
	}
	for _, prefix := range []string{"a{b", "a}b"} {
		_, err := priority.NewRedisTracker(client, &priority.RedisOptions{Prefix: prefix})
		wantInvalid(t, err, priority.ErrInvalidOption, prefix)
	}
	for _, client := range []priority.RedisClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		tracker, err := priority.NewRedisTracker(client, nil)
		wantInvalid(t, err, priority.ErrInvalidOption, "nil")
		if tracker != nil {
			t.Errorf("%T: a tracker beside the error", client)
		}
	}
}

// The zero MemoryTracker, the one without options and the one with zero options
// are the same.
func TestMemoryTrackerDefaults(t *testing.T) {
	t.Parallel()
	for name, tracker := range map[string]priority.Tracker{
		"zero value":   new(priority.MemoryTracker),
		"nil options":  must(priority.NewMemoryTracker(nil))(t),
		"zero options": must(priority.NewMemoryTracker(&priority.MemoryOptions{}))(t),
	} {
		t.Run(name, func(t *testing.T) {
			w := &tracking{Tracker: tracker, slack: handSlack} // by the real clock
			w.peek(t, "acme", none(0))
			w.done(t, "acme", "a")
			w.doneN(t, "acme", "a", "b")
			w.submit(t, "acme", "a", pending(0, 1))
			w.submitN(t, "acme", []string{"b", "c"}, submitted(-1, 2, 2)...)
			w.done(t, "acme", "a")
			w.peek(t, "acme", pending(-2, 2))
			w.reset(t, "acme")
			w.submit(t, "acme", "a", pending(0, 1))
		})
	}
	for name, reset := range map[string]bool{"Reset first": true, "Done first": false} {
		t.Run(name, func(t *testing.T) {
			w := &tracking{Tracker: new(priority.MemoryTracker)}
			if reset {
				w.reset(t, "acme")
			}
			w.done(t, "acme", "a")
			w.peek(t, "acme", none(0))
		})
	}
}

// A MemoryTracker does not keep the customers and documents that are gone. (Not
// parallel: it looks at the memory of the whole process.)
func TestMemoryTrackerForgets(t *testing.T) {
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		w := trackMemory(t, leased{rule: rule{policy: priority.Policy{ResetMode: mode}}})
		// Each interval has customers of its own, and one who comes always, half
		// of whose documents are never done.
		interval := func(n int) {
			for i := range 1000 {
				w.submit(t, fmt.Sprint(n, " ", i), "a", pending(0, 1))
				id := fmt.Sprint(n, " ", i)
				if _, err := w.Submit(t.Context(), "always", id); err != nil {
					t.Fatal(err)
				}
				if i%2 == 0 {
					w.done(t, "always", id)
				}
			}
			w.wait(quiet + time.Millisecond)
		}
		empty := heap()
		for n := range 5 {
			interval(n)
		}
		five := heap() - empty
		for n := range 100 {
			interval(5 + n)
		}
		if more := heap() - empty; more > 3*five {
			t.Errorf("%v: what 5 intervals leave takes %d bytes, that of 105 takes %d", mode, five, more)
		}
		_ = w.pending(t, "always")
	}
}
