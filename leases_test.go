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
	w.submitN(t, "acme", ids, flood(manyPending)...)
	w.submit(t, "acme", "pending", pending(manyPending+1))
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
	w.pends(t, "acme", 1)
	cleared("Peek", 0, 0)
	w.submit(t, "acme", "pending", priority.Decision{Level: 5, Load: 512, Pending: 1})
	cleared("Submit", 0, 4)
	for i := range 100 {
		w.submit(t, "acme", fmt.Sprint("new ", i), priority.Decision{Level: 6, Load: 512 * 2, Pending: 2})
		cleared("Submit", 1, 4)
		w.submit(t, "acme", fmt.Sprint("new ", i), priority.Decision{Level: 6, Load: 512 * 2, Pending: 2})
		cleared("Submit of a pending one", 0, 4)
		w.done(t, "acme", fmt.Sprint("new ", i))
		cleared("Done", -1, 0)
	}
	// Batches that are never finished clear more than they add.
	before := held
	for i := range 20 {
		batch := documentIDs(fmt.Sprint("batch ", i), 50) // one call of the script
		w.submitN(t, "acme", batch, pendingEach(2, 50)...)
		cleared("SubmitN", 50, 53)
		endLeases(t, client, key, batch...)
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
	w.pends(t, "acme", 1)
}
