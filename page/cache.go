package page

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
)

const (
	healthInterval = 30 * time.Second
	healthTrips    = 20
	mostCustomers  = 1000 // whose lookups are kept
	mostBusiest    = 25
	mostLogPages   = 50
	logPage        = 50
	customerLog    = 1000 // the changes among which a customer's are looked for
	lookupsASecond = 100
	stepTime       = 500 * time.Millisecond // of a walk
	unwatched      = 30 * time.Second       // a walk that nobody waits for ends
)

// cache is what all pages know about the fleet.
type cache struct {
	background *background
	own        *insight.Inspector // by the workers' own options
	lookups    *rate.Limiter      // of customers
	pace       int                // of a walk, in keys a second

	// turn has capacity 1: its holder walks through all customers. Each step of that walk
	// holds alone, and so does the health check, which counts a document of its own.
	turn  chan struct{}
	alone sync.Mutex

	inspector *cell[*insight.Inspector] // by what operators have set
	lost      atomic.Pointer[loss]
	snapshot  *cell[*insight.Snapshot]
	workers   *cell[[]insight.Worker]
	reports   *cell[[]fleet.Report]
	overrides *cell[[]*insight.Overridden]
	override  *cells[string, *insight.Overridden] // nil: there is no override
	day       *cell[day]
	searches  *searches
	customers *cells[string, customerLook]
	held      *cells[string, string] // what a reset would forget
	health    *cell[*insight.Health]
	changes   *cell[[]insight.Logged] // the last changes, the newest first
	logPages  *cells[int64, []insight.Logged]
	history   *cell[[]insight.SetRules]
}

// customerLook is a customer, and the inspector that has looked.
type customerLook struct {
	*insight.Customer
	by *insight.Inspector
}

func newCache(own *insight.Inspector, options Options) *cache {
	interval := options.Interval
	f := &cache{background: newBackground(), own: own, pace: options.Pace, lookups: rate.NewLimiter(lookupsASecond, lookupsASecond), turn: make(chan struct{}, 1)}
	f.inspector = newCell(f.background, interval, f.follow)
	f.snapshot = newCell(f.background, interval, asNow(f, func(i *insight.Inspector, ctx context.Context) (*insight.Snapshot, error) {
		return i.Snapshot(ctx, mostBusiest)
	}))
	f.workers = newCell(f.background, interval, asNow(f, (*insight.Inspector).Workers))
	f.reports = newCell(f.background, interval, asNow(f, (*insight.Inspector).Reports))
	f.overrides = newCell(f.background, 5*interval, asNow(f, (*insight.Inspector).Overrides))
	f.override = newCells(f.background, interval, mostCustomers, func(ctx context.Context, customer string) (*insight.Overridden, error) {
		inspector, _ := f.now(ctx) // the page says that it is not known
		return inspector.OverrideOf(ctx, customer)
	})
	f.day = newCell(f.background, interval, f.readDay)
	f.searches = newSearches(f, options)
	f.customers = newCells(f.background, interval, mostCustomers, f.lookUp)
	f.held = newCells(f.background, interval, mostCustomers, f.lookUpHeld)
	f.health = newCell(f.background, healthInterval, func(ctx context.Context) (*insight.Health, error) {
		f.alone.Lock()
		defer f.alone.Unlock()
		return f.own.Health(ctx, healthTrips)
	})
	f.health.failed = interval
	f.changes = newCell(f.background, interval, f.readChanges)
	f.logPages = newCells(f.background, interval, mostLogPages, func(ctx context.Context, upTo int64) ([]insight.Logged, error) {
		return f.readLog(ctx, upTo, logPage+1)
	})
	f.history = newCell(f.background, interval, func(ctx context.Context) ([]insight.SetRules, error) {
		inspector, err := f.now(ctx)
		if err != nil {
			return nil, err
		}
		return inspector.History(ctx)
	})
	return f
}

// asNow asks an inspector that follows what operators have set, as far as that is
// known; if not, the page says so.
func asNow[T any](f *cache, ask func(i *insight.Inspector, ctx context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		inspector, _ := f.now(ctx)
		return ask(inspector, ctx)
	}
}

// loss says that Redis lost what operators set.
type loss struct {
	known, there int64 // versions
}

// String is what the page says.
func (l *loss) String() string {
	return fmt.Sprintf("Redis lost what operators set: version %d was known, %d is there. Workers keep the rules that they know until operators apply, import or withdraw rules; overrides are gone. "+
		"priorityctl control import brings back what priorityctl control export has printed.", l.known, l.there)
}

// noteLoss compares the settings with the earlier settings.
func (f *cache) noteLoss(before, now *control.Settings) {
	switch lost := f.lost.Load(); {
	case before == nil || now == nil:
	case now.Version < before.Version:
		f.lost.Store(&loss{before.Version, now.Version})
	case lost != nil && now.Version > lost.there: // operators have changed something since
		f.lost.Store(nil)
	}
}

// follow returns an inspector that follows what operators have set now.
func (f *cache) follow(ctx context.Context) (*insight.Inspector, error) {
	known := f.inspector.known().value
	if known == nil {
		known = f.own
	}
	next, err := known.Follow(ctx)
	if err == nil {
		f.noteLoss(known.Settings, next.Settings)
	}
	return next, err
}

// now returns an inspector that follows what operators have set, as far as that is
// known, and an error if it may be out of date.
func (f *cache) now(ctx context.Context) (*insight.Inspector, error) {
	found := f.inspector.get(ctx)
	if found.value == nil {
		return f.own, errors.Join(found.err, found.slow())
	}
	return found.value, errors.Join(found.err, found.slow())
}

func (f *cache) lookUp(ctx context.Context, customer string) (customerLook, error) {
	if err := f.lookups.Wait(ctx); err != nil {
		return customerLook{}, err
	}
	known, _ := f.now(ctx) // the page says that it is not known
	inspector := *known
	inspector.Waits = fleet.Add(f.reports.get(ctx).value).Waits
	found, err := inspector.Customer(ctx, customer)
	return customerLook{found, &inspector}, err
}

// lookUpHeld says what Redis holds about a customer, or why that is unknown.
func (f *cache) lookUpHeld(ctx context.Context, customer string) (string, error) {
	if err := f.lookups.Wait(ctx); err != nil {
		return "", err
	}
	inspector, _ := f.now(ctx) // the page says that it is not known
	return inspector.Held(ctx, customer), nil
}

// readChanges reads the last changes, unless the newest change is known. The version
// alone does not identify a change: a Redis that lost changes assigns their versions
// again.
func (f *cache) readChanges(ctx context.Context) ([]insight.Logged, error) {
	newest, err := f.readLog(ctx, 0, 1)
	if err != nil {
		return nil, err
	}
	known := f.changes.known()
	if !known.at.IsZero() && slices.EqualFunc(newest, known.value[:min(1, len(known.value))], sameChange) {
		return known.value, nil
	}
	return f.readLog(ctx, 0, customerLog)
}

// explained says which rights a walk lacks.
func (f *cache) explained(err error) error {
	if insight.Forbidden(err) {
		return fmt.Errorf("%w; it needs %s on the keys ~%s:*", err, walkRights, f.own.Prefix)
	}
	return err
}

// walkRights are the rights that a walk needs, as ACL SETUSER takes them.
const walkRights = "+scan " + insight.PeekRights

func sameChange(a, b insight.Logged) bool { return a.Version == b.Version && a.At.Equal(b.At) }

func (f *cache) readLog(ctx context.Context, upTo int64, most int) ([]insight.Logged, error) {
	entries, err := f.own.Admin.Log(ctx, upTo, most)
	logged := make([]insight.Logged, len(entries))
	for i, entry := range entries {
		logged[i] = insight.LoggedOf(entry)
	}
	return logged, err
}

// expire makes all cells look again, after a change.
func (f *cache) expire() {
	f.inspector.expire()
	f.customers.expire()
	f.held.expire()
	f.changes.expire()
	f.logPages.expire()
	f.history.expire()
	f.workers.expire()
	f.reports.expire()
	f.overrides.expire()
	f.override.expire()
}

// walk goes through all customers, as long as somebody waits for it. There is one
// walk at a time.
func (f *cache) walk(ctx context.Context, idle func() time.Duration, step func() (done bool, err error)) error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		f.alone.Lock()
		done, err := step()
		f.alone.Unlock()
		switch {
		case done || err != nil:
			return err
		case idle() > unwatched:
			return errUnwatched
		}
	}
}

var errUnwatched = errors.New("nobody looked for a while")

// ownPolicyName names a customer's policy by the workers' own options.
func (f *cache) ownPolicyName(customer string) string {
	tier, ok := f.own.Tier(customer)
	if !ok {
		return f.own.Policy.Name
	}
	return f.own.Policy.Name + ", tier " + insight.Shown(tier)
}

// slow is the error of a lookup that takes too long.
func (l looked[T]) slow() error {
	if l.late {
		return errSlow
	}
	return nil
}

var errSlow = errors.New("no answer from Redis yet")

// text returns an error's text as a page may show it.
func (f *cache) text(err error) string {
	text := insight.OneLine(f.own.Hidden(err))
	if insight.Unreachable(err) && !errors.Is(err, errSlow) && !errors.Is(err, errClosed) {
		return "Redis at " + f.own.Server.Address + " cannot be reached: " + text
	}
	return text
}
