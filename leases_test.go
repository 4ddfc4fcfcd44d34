//go:build !race

package priority_test

import (
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
	const aCall = 1000
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
	cleared("Submit", 0, aCall)
	w.submit(t, "acme", "new", priority.Decision{Level: 6, Load: 512 * 2, Pending: 2})
	cleared("Submit", 1, aCall)
	w.done(t, "acme", "new")
	cleared("Done", -1, 0)
	w.submitN(t, "acme", documentIDs("batch", 50), pendingEach(2, 50)...) // one call of the script
	cleared("SubmitN", 50, aCall)
	w.doneN(t, "acme", documentIDs("batch", 50)...)
	cleared("DoneN", -50, 0)

	// They are gone after a few documents, and not only after as many as there were.
	for range manyPending / aCall {
		must(w.Submit(t.Context(), "acme", "pending", 0))(t)
	}
	if held := client.ZCard(t.Context(), key).Val(); held != 1 {
		t.Errorf("%d documents are left of %d that ended a day ago", held-1, manyPending)
	}
	w.pends(t, "acme", 1)
}
