package priority_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// manyPending is how many documents of one customer must not slow Redis down.
const manyPending = 100_000

// endLeases lets the leases of some documents, or of all, end a minute ago, past
// the tracker.
func endLeases(t testing.TB, client *redis.Client, key string, ids ...string) {
	t.Helper()
	ended := float64(time.Now().Add(-time.Minute).UnixMilli())
	if len(ids) == 0 {
		ids = client.ZRange(context.Background(), key, 0, -1).Val()
	}
	moved := make([]redis.Z, len(ids))
	for i, id := range ids {
		moved[i] = redis.Z{Score: ended, Member: id}
	}
	if err := client.ZAddXX(context.Background(), key, moved...).Err(); err != nil {
		t.Fatal(err)
	}
}

// However many leases have ended, a call clears few of them, and they count for
// nothing all the while. In the end they are all gone.
func TestManyEndedLeasesAreClearedInSteps(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	tracker := openTracker(t, client, patient)
	w, key := &tracking{Tracker: tracker, slack: handSlack}, tracker.PendingKey("acme")
	ids := documentIDs("old", manyPending)
	w.submitN(t, "acme", ids, submitted(0, 1, manyPending)...)
	w.submit(t, "acme", "pending", pending(-manyPending, manyPending+1))
	endLeases(t, client, key, ids...)
	held := manyPending + 1
	cleared := func(call string, added, most int) {
		t.Helper()
		now := int(client.ZCard(t.Context(), key).Val())
		if step := held + added - now; step < 0 || step > most {
			t.Fatalf("%s cleared %d ended leases, want at most %d", call, step, most)
		}
		held = now
	}
	w.peek(t, "acme", pending(-manyPending, 1))
	cleared("Peek", 0, 0)
	count := int64(-manyPending)
	for i := range 100 {
		count--
		w.submit(t, "acme", fmt.Sprint("new ", i), pending(count, 2))
		cleared("Submit", 1, 4)
		w.submit(t, "acme", fmt.Sprint("new ", i), pending(count, 2))
		cleared("Submit of a pending one", 0, 4)
		w.done(t, "acme", fmt.Sprint("new ", i))
		cleared("Done", -1, 0)
		w.peek(t, "acme", pending(count, 1))
	}
	// Batches that are never finished clear more than they add.
	before := held
	for i := range 20 {
		batch := documentIDs(fmt.Sprint("batch ", i), 50) // one call of the script
		w.submitN(t, "acme", batch, submitted(count-1, 2, 50)...)
		cleared("SubmitN", 50, 53)
		endLeases(t, client, key, batch...)
		count -= 50
	}
	if held >= before {
		t.Errorf("%d leases are held after batches that were never finished, %d before", held, before)
	}
	// 4 a call at least: nobody must wait for the whole of them.
	for calls := 0; held > 1; calls++ {
		if calls > manyPending/4 {
			t.Fatalf("%d calls left %d leases", calls, held)
		}
		if _, err := w.Submit(t.Context(), "acme", "pending"); err != nil {
			t.Fatal(err)
		}
		held = int(client.ZCard(t.Context(), key).Val())
	}
	w.peek(t, "acme", pending(count, 1))
}

// No call takes more from Redis with many documents pending than with few, by
// the number of commands; and calls of many are cut.
func TestManyPending(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	w := trackerOf(t, client)
	ids := documentIDs("invoice", manyPending)
	told := calls(t, client, func() { w.submitN(t, "acme", ids, submitted(0, 1, manyPending)...) })
	if told["eval"] != manyPending/50 || told["zadd"] != manyPending/50 {
		t.Errorf("SubmitN of %d made %v", manyPending, told)
	}
	w.submitN(t, "acme", ids[:1000], submittedAgain(pending(1-manyPending, manyPending), 1000)...)
	w.done(t, "acme", ids[0])
	w.submit(t, "acme", "another", pending(-manyPending, manyPending))
	told = calls(t, client, func() { w.doneN(t, "acme", ids...) })
	if told["zrem"] < manyPending/250 {
		t.Errorf("DoneN of %d made %v", manyPending, told)
	}
	w.peek(t, "acme", pending(-manyPending, 1))
}

func submittedAgain(decision priority.Decision, n int) []priority.Decision {
	decisions := make([]priority.Decision, n)
	for i := range decisions {
		decisions[i] = decision
	}
	return decisions
}
