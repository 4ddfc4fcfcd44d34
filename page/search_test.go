package page

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/redistest"
)

// aloneHook fails the test where a key is looked at by one who does not hold alone.
type aloneHook struct {
	redis.Hook
	t     *testing.T
	cache func() *cache
}

func (h aloneHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h aloneHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h aloneHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == "scan" && h.cache().alone.TryLock() {
			h.cache().alone.Unlock()
			h.t.Error("a walk goes on beside another one")
		}
		return next(ctx, command)
	}
}

// A search walks through all customers alone, and only while somebody waits for it.
func TestASearchGoesOnAloneAndWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	for i := range 200 {
		if err := client.Set(t.Context(), fmt.Sprintf("priority:{%d}:count", i), "-1", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	p, err := New(client, &Options{Pace: 40})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	client.AddHook(aloneHook{t: t, cache: func() *cache { return p.cache }})
	if _, err := p.cache.searches.run(t.Context(), sought{}); !errors.Is(err, errUnwatched) { // nobody has asked
		t.Errorf("%v, not %v", err, errUnwatched)
	}
}
