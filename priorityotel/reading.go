package priorityotel

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/backlog"
)

// The reports are written every five seconds.
const (
	fleetInterval = 5 * time.Second
	fleetTimeout  = 4 * time.Second
)

// mostWaiting is how many customers' pending documents are read, of those with most.
const mostWaiting = 100

// fleetReader reads what a fleet reports.
type fleetReader struct {
	client redis.UniversalClient
	prefix string
	admin  *control.Admin
	latest atomic.Pointer[reading] // nil: it failed
}

func newFleetReader(client redis.UniversalClient, prefix string) (*fleetReader, error) {
	admin, err := control.NewAdmin(client, &control.AdminOptions{Prefix: prefix, Timeout: -1})
	return &fleetReader{client: client, prefix: prefix, admin: admin}, err
}

type reading struct {
	reports []fleet.Report
	totals  fleet.Totals
	now     time.Time // Redis's; zero: it is not known
	version int64     // of the policies that Redis has; 0: none, or they cannot be read
	backlog map[priority.Level]backlog.Level
	unread  int64 // further pending documents, whose levels were not read
}

func (r *fleetReader) run(ctx context.Context) {
	ticks := time.NewTicker(fleetInterval)
	defer ticks.Stop()
	for {
		r.latest.Store(r.read(ctx))
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *fleetReader) read(ctx context.Context) *reading {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	reports, err := fleet.Read(ctx, r.client, r.prefix)
	if err != nil {
		return nil
	}
	now, _ := r.admin.Now(ctx)
	applied, _ := r.admin.Policies(ctx)
	latest := &reading{reports: reports, totals: fleet.Add(reports), now: now, version: applied.Version}
	r.readBacklog(ctx, latest)
	return latest
}

// readBacklog reads what waits at each level, of the customers with most pending documents.
func (r *fleetReader) readBacklog(ctx context.Context, latest *reading) {
	accounts := slices.ContainsFunc(latest.reports, func(report fleet.Report) bool { return report.Accounts })
	store, err := priority.NewRedisStore(r.client, &priority.RedisOptions{Prefix: r.prefix, Accounts: accounts, Timeout: -1})
	if err != nil {
		return
	}
	reported := slices.DeleteFunc(slices.Clone(latest.totals.Busiest), func(b fleet.Busy) bool { return b.Pending == 0 })
	slices.SortFunc(reported, func(a, b fleet.Busy) int { return cmp.Compare(b.Pending, a.Pending) })
	var names []string
	for _, b := range reported[:min(mostWaiting, len(reported))] {
		names = append(names, b.Customer)
	}
	states, _ := store.PeekEach(ctx, names) // where a part of Redis fails, the others' backlogs are known
	var customers []backlog.Customer
	for i, state := range states {
		if state.Pending > 0 {
			customers = append(customers, backlog.Customer{Name: names[i], State: state})
		}
	}
	now, err := r.admin.Now(ctx)
	if err != nil || latest.now.IsZero() {
		return
	}
	documents, err := backlog.Reader{Client: r.client, Store: store, Began: latest.now, Now: now}.Documents(ctx, customers)
	if err != nil {
		return
	}
	latest.backlog = backlog.Levels(customers, documents)
	for i, c := range customers {
		latest.unread += max(c.State.Pending-int64(len(documents[i])), 0)
	}
}

// newest returns the version that workers should follow. If Redis has no policies, only the
// reports do.
func (r *reading) newest() (version int64) {
	if r.version > 0 {
		return r.version
	}
	for _, report := range r.reports {
		version = max(version, report.Following.Version)
	}
	return version
}

// others returns how many processes decide by other policies than most.
func (r *reading) others() int64 {
	digests, known, most := make(map[string]int64), int64(0), int64(0)
	for _, report := range r.reports {
		if report.Here() && report.Digest != "" && report.Documents() > 0 { // others may know no tiers
			digests[report.Digest]++
			known, most = known+1, max(most, digests[report.Digest])
		}
	}
	return known - most
}

// apart returns how far a process's clock and Redis's are apart at most.
func (r *reading) apart() (most time.Duration) {
	for _, report := range r.reports {
		if report.Here() && !report.Written.IsZero() && !r.now.IsZero() {
			most = max(most, report.Written.Sub(r.now.Add(-report.Age)).Abs())
		}
	}
	return most
}
