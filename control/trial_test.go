package control_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/coalesce"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fallback"
)

// moves is what a trial should have seen, by level and level by the rules on trial.
type moves struct {
	mu   sync.Mutex
	seen map[[2]priority.Level]int64
}

func (m *moves) add(decision priority.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = make(map[[2]priority.Level]int64)
	}
	from := decision.Level
	if decision.Ruled != 0 {
		from = decision.Ruled
	}
	m.seen[[2]priority.Level{from, decision.Trial}]++
}

func (m *moves) all() (all []control.Moved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for levels, n := range m.seen {
		all = append(all, control.Moved{From: levels[0], To: levels[1], Documents: n})
	}
	slices.SortFunc(all, func(a, b control.Moved) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return all
}

func (w *world) wantTotal(version int64, want []control.Moved) {
	w.t.Helper()
	got, total, err := w.admin.Total(w.t.Context())
	if err != nil || got != version || !slices.Equal(total, want) {
		w.t.Errorf("the total of %d is %v, %v, want of %d %v", got, total, err, version, want)
	}
}

// A trial tells what level its rules would give, and changes none.
func TestATrialTellsLevelsAndChangesNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	candidate := control.Rules{
		Policy: priority.Policy{Thresholds: []int64{0, -3, -7}},
		Tiers:  map[string]priority.Policy{"gold": only().Policy},
	}
	must(w.admin.SetMember(ctx, "acme gold", "gold", demo(0)))(t)
	version := w.try(candidate)
	seen := new(moves)
	for i := range 12 {
		for _, customer := range []string{"acme", "acme gold"} {
			want := candidate.Policy.Level(int64(-i))
			if customer == "acme gold" {
				want = 1
			}
			got := must(w.store.Next(ctx, customer))(t)
			if got.Count != int64(-i) || got.Trial != want || got.Level != priority.DefaultPolicy().Level(int64(-i)) || got.Ruled != 0 {
				t.Errorf("%s, document %d: %+v, want a trial of %d", customer, i, got, want)
			}
			peeked := must(w.store.Peek(ctx, customer))(t) // is no document
			if peeked.Count != int64(-i) || peeked.Level != got.Level {
				t.Errorf("%s, document %d: Peek = %+v", customer, i, peeked)
			}
			seen.add(priority.Decision{Level: priority.DefaultPolicy().Level(int64(-i)), Trial: want})
		}
	}
	for _, call := range []func() ([]priority.Decision, error){
		func() ([]priority.Decision, error) { return w.store.NextN(ctx, "bolt", 9) },
		func() ([]priority.Decision, error) {
			return w.store.NextEach(ctx, []string{"cog", "cog", "acme gold", "cog"})
		},
	} {
		for _, got := range must(call())(t) {
			want := candidate.Policy.Level(got.Count)
			if got.Count == -12 { // acme gold
				want = 1
			}
			if got.Trial != want {
				t.Errorf("%+v, want a trial of %d", got, want)
			}
			seen.add(got)
		}
	}
	if got := w.store.Status().Moved; !slices.Equal(got, seen.all()) {
		t.Errorf("this process has seen %v, want %v", got, seen.all())
	}
	w.refresh()
	w.wantTotal(version, seen.all())
	w.refresh() // counts nothing twice
	w.wantTotal(version, seen.all())
	must(w.admin.EndTrial(ctx, demo(version)))(t)
	w.refresh()
	if got := must(w.store.Next(ctx, "acme"))(t); got.Trial != 0 || w.store.Status().Moved != nil {
		t.Errorf("after the trial: %+v; %v", got, w.store.Status().Moved)
	}
	w.wantTotal(version, seen.all())
}

// Of submitted documents a trial tells what Submit would give by its rules.
func TestATrialOfSubmittedDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	candidate := control.Rules{Policy: priority.Policy{Thresholds: []int64{-1, -3, -7}}}
	version := w.try(candidate)
	other := openStore(t, w.client, &priority.RedisOptions{Prefix: "other", Policy: candidate.Policy})
	seen, random := new(moves), rand.New(rand.NewPCG(12, 3))
	differ := 0
	for i := range 120 {
		customer := fmt.Sprint("customer ", random.IntN(3))
		document := fmt.Sprint("document ", random.IntN(60))
		switch random.IntN(4) {
		case 0:
			check(t, w.store.Done(ctx, customer, document, 0))
			check(t, other.Done(ctx, customer, document, 0))
		case 1:
			documents := []string{document, fmt.Sprint(i), fmt.Sprint(i, " more")}
			got, want := must(w.store.SubmitN(ctx, customer, documents))(t), must(other.SubmitN(ctx, customer, documents))(t)
			for j := range got {
				if got[j].Count != want[j].Count || got[j].Trial != want[j].Level {
					differ++
					t.Logf("step %d: %+v, by the rules on trial %+v", i, got[j], want[j])
				}
				seen.add(got[j])
			}
		default:
			got, want := must(w.store.Submit(ctx, customer, document))(t), must(other.Submit(ctx, customer, document))(t)
			if got.Count != want.Count || got.Trial != want.Level {
				differ++
				t.Logf("step %d: %+v, by the rules on trial %+v", i, got, want)
			}
			seen.add(got)
		}
	}
	if differ > 0 {
		t.Errorf("%d documents have another level by the rules on trial", differ)
	}
	w.refresh()
	w.wantTotal(version, seen.all())
}

// Many processes make one total.
func TestATotalIsThatOfAllProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	version := w.try(strict())
	seen := new(moves)
	var wg sync.WaitGroup
	for worker := range 4 {
		store := openControl(t, openStore(t, w.server.Client(), nil), &control.Options{Interval: 10 * time.Millisecond})
		check(t, store.Refresh(ctx))
		wg.Go(func() {
			for i := range 100 {
				got, err := store.Next(ctx, fmt.Sprint("customer ", (i+worker)%7))
				if err != nil {
					t.Error(err)
					return
				}
				seen.add(got)
			}
			if err := store.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.wantTotal(version, seen.all())
}

// A second trial begins anew, and a process that has not heard of it does not spoil its
// total.
func TestASecondTrialBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	straggler := openControl(t, w.own, seldom)
	check(t, straggler.Refresh(ctx))
	first := w.try(strict())
	check(t, straggler.Refresh(ctx))
	must(w.store.Next(ctx, "acme"))(t)
	w.refresh()
	w.wantTotal(first, []control.Moved{{From: 1, To: 1, Documents: 1}})
	must(straggler.Next(ctx, "acme"))(t)
	second := w.try(only())
	w.wantTotal(first, []control.Moved{{From: 1, To: 1, Documents: 1}})
	must(w.store.NextN(ctx, "bolt", 4))(t)
	if got, want := w.store.Status().Moved, []control.Moved{{From: 1, To: 1, Documents: 3}, {From: 2, To: 1, Documents: 1}}; !slices.Equal(got, want) {
		t.Errorf("this process has seen %v, want %v", got, want)
	}
	w.refresh()
	want := []control.Moved{{From: 1, To: 1, Documents: 3}, {From: 2, To: 1, Documents: 1}}
	w.wantTotal(second, want)
	must(straggler.Next(ctx, "acme"))(t)
	check(t, straggler.Close(ctx)) // never heard of the second
	w.wantTotal(second, want)
	if ttl := w.client.PTTL(ctx, trialKey).Val(); ttl < 29*24*time.Hour || ttl > 30*24*time.Hour {
		t.Errorf("the total lives for %v", ttl)
	}
}

// A trial counts each document once, also those that coalesce answers from memory.
func TestATrialThroughCoalesceCountsEachDocumentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	candidate := control.Rules{Policy: priority.Policy{Thresholds: []int64{-2, -40, -50, -60}}}
	version := w.try(candidate)
	store := must(coalesce.New(w.store, &coalesce.Options{Interval: 5 * time.Millisecond}))(t)
	const documents = 150
	for i := range documents {
		got := must(store.Next(ctx, "acme"))(t)
		if got.Estimated && got.Trial != 0 {
			t.Errorf("document %d, answered from memory, is tried: %+v", i, got)
		}
	}
	check(t, store.Close(ctx))
	check(t, w.store.Close(ctx))
	wanted := new(moves)
	for i := range int64(documents) {
		wanted.add(priority.Decision{Level: priority.DefaultPolicy().Level(-i), Trial: candidate.Policy.Level(-i)})
	}
	if got := must(w.own.Peek(ctx, "acme"))(t); got.Count != 1-documents {
		t.Errorf("%+v", got)
	}
	w.wantTotal(version, wanted.all())
}

func TestWhatIsDegradedIsNotTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &priority.RedisOptions{Timeout: 2 * time.Second})
	ctx := t.Context()
	w.try(strict())
	w.override("bolt", control.Pin(4))
	store := must(fallback.New(w.store, nil, nil))(t)
	defer store.Close(ctx)
	if got := must(store.Next(ctx, "acme"))(t); got.Trial != 1 {
		t.Errorf("%+v", got)
	}
	before := w.store.Status().Moved
	w.server.Kill()
	if got := must(store.Next(ctx, "acme"))(t); !got.Degraded || got.Trial != 0 {
		t.Errorf("degraded: %+v", got)
	}
	if got := must(store.Next(ctx, "bolt"))(t); !got.Degraded || got.Trial != 0 || got.Level != 4 || got.Ruled != 1 {
		t.Errorf("degraded: %+v", got)
	}
	if got := w.store.Status().Moved; !slices.Equal(got, before) {
		t.Errorf("moved %v, before %v", got, before)
	}
}

// What a process has seen while Redis was away is in the total when it is back.
func TestATotalOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	version := w.try(strict())
	must(w.store.NextN(ctx, "acme", 3))(t)
	refused := []any{"acl", "setuser", "default", "-evalsha", "-eval"}
	check(t, w.client.Do(ctx, refused...).Err())
	if err := w.store.Refresh(ctx); err == nil && w.client.Exists(ctx, trialKey).Val() == 0 { // else the first reading wrote it
		t.Error("Refresh worked")
	}
	check(t, w.client.Do(ctx, "acl", "setuser", "default", "+evalsha", "+eval").Err())
	w.refresh()
	w.wantTotal(version, []control.Moved{{From: 1, To: 1, Documents: 1}, {From: 1, To: 2, Documents: 1}, {From: 1, To: 3, Documents: 1}})
}

func TestWithoutATrialThereIsNoTotal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.refresh()
	must(w.store.Next(context.Background(), "acme"))(t)
	w.refresh()
	w.wantTotal(0, nil)
}
