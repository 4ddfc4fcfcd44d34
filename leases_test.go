//go:build !race

package priority_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// With the race detector this takes minutes, and it has nothing to find: all is done one
// after another.

// However many leases have ended, a call clears few of them, and they count for
// nothing all the while. In the end they are all gone.
func TestManyEndedLeasesAreClearedInSteps(t *testing.T) {
	t.Parallel()
	client := connectWith(t, &redis.Options{Addr: redistest.Start(t).Addr, ReadTimeout: time.Minute})
	w := storeOf(t, client)
	key := w.Store.(*priority.RedisStore).PendingKey("acme")
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
	last := pending(-manyPending, 1)
	last.Level = 9 // as the document was given
	w.peek(t, "acme", last)
	cleared("Peek", 0, 0)
	w.submit(t, "acme", "pending", pending(-manyPending, 1))
	cleared("Submit", 0, 4)
	count := int64(-manyPending)
	for i := range 100 {
		count--
		w.submit(t, "acme", fmt.Sprint("new ", i), pending(count, 2))
		cleared("Submit", 1, 4)
		w.submit(t, "acme", fmt.Sprint("new ", i), pending(count, 2))
		cleared("Submit of a pending one", 0, 4)
		w.done(t, "acme", fmt.Sprint("new ", i))
		cleared("Done", -1, 0)
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
	for calls := 0; held > 1; calls++ {
		if calls > manyPending/4 {
			t.Fatalf("%d calls left %d leases", calls, held)
		}
		must(w.Submit(t.Context(), "acme", "pending", 0))(t)
		held = int(client.ZCard(t.Context(), key).Val())
	}
	w.peek(t, "acme", pending(count, 1))
}
