package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// must returns what a call returned, or fails the test.
func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await is redistest.Await.
var await = redistest.Await

// join makes a member that is closed with the test, and whose calls take as long as they
// take. Nil opts are the defaults.
func join(t testing.TB, client priority.RedisClient, opts *fleet.Options) *fleet.Member {
	t.Helper()
	var options fleet.Options
	if opts != nil {
		options = *opts
	}
	if options.Store.Timeout == 0 {
		options.Store.Timeout = time.Minute
	}
	member := must(fleet.Join(client, &options))(t)
	t.Cleanup(func() { _ = member.Close(ended(t)) })
	return member
}

// ended returns a context that has ended: Close with it ends what runs in the background,
// and waits for nothing.
func ended(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cancel()
	return ctx
}

// byName returns the reports in Redis by the names of their processes.
func byName(t testing.TB, client priority.RedisClient) map[string]fleet.Report {
	t.Helper()
	reports := make(map[string]fleet.Report)
	for _, r := range must(fleet.Read(context.Background(), client, ""))(t) {
		if r.Err != nil {
			t.Errorf("%s: %v", r.ID, r.Err)
		}
		reports[r.Name] = r
	}
	return reports
}
