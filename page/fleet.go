package page

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/docpriority/priority/internal/insight"
)

const (
	healthInterval = 30 * time.Second
	healthTrips    = 20
	mostCustomers  = 1000 // whose lookups are kept
	mostLogPages   = 50
	logPage        = 50
	customerLog    = 1000 // of so many changes a customer's are shown
	lookupsASecond = 100
	pageKeys       = 500 // that a pass looks at together
)

// fleet is what all pages know of the fleet.
type fleet struct {
	background *background
	own        *insight.Inspector // by the workers' own options
	lookups    *rate.Limiter      // of customers
	pace       int                // of a pass, in keys a second

	// alone is held by the health check, which counts a document of its own, and by
	// those who go through all counts, who should not meet that.
	alone sync.Mutex

	inspector *cell[*insight.Inspector] // by what operators have set
	customers *cells[string, customerLook]
	held      *cells[string, string] // what a reset would forget
	health    *cell[*insight.Health]
	changes   *cell[[]insight.Logged] // the last ones, the newest first
	logPages  *cells[int64, []insight.Logged]
	history   *cell[[]insight.SetRules]
}

// customerLook is a customer, and the inspector that has looked.
type customerLook struct {
	*insight.Customer
	by *insight.Inspector
}

func newFleet(own *insight.Inspector, options Options) *fleet {
	interval := options.Interval
	f := &fleet{background: newBackground(), own: own, pace: options.Pace, lookups: rate.NewLimiter(lookupsASecond, lookupsASecond)}
	f.inspector = newCell(f.background, interval, f.follow)
	f.customers = newCells(f.background, interval, mostCustomers, f.lookUp)
	f.held = newCells(f.background, interval, mostCustomers, f.lookUpHeld)
	f.health = newCell(f.background, healthInterval, func(ctx context.Context) (*insight.Health, error) {
		f.alone.Lock()
		defer f.alone.Unlock()
		return f.own.Health(ctx, healthTrips)
	})
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

// follow returns an inspector that decides by what operators have set now.
func (f *fleet) follow(ctx context.Context) (*insight.Inspector, error) {
	known := f.inspector.known().value
	if known == nil {
		known = f.own
	}
	return known.Follow(ctx)
}

// now returns an inspector that decides by what operators have set, as far as that is
// known, and why it is not known better.
func (f *fleet) now(ctx context.Context) (*insight.Inspector, error) {
	found := f.inspector.get(ctx)
	if found.value == nil {
		return f.own, errors.Join(found.err, found.slow())
	}
	return found.value, errors.Join(found.err, found.slow())
}

func (f *fleet) lookUp(ctx context.Context, customer string) (customerLook, error) {
	if err := f.lookups.Wait(ctx); err != nil {
		return customerLook{}, err
	}
	inspector, _ := f.now(ctx) // the page says that it is not known
	found, err := inspector.Customer(ctx, customer)
	return customerLook{found, inspector}, err
}

// lookUpHeld says what Redis holds of a customer, or why that cannot be told.
func (f *fleet) lookUpHeld(ctx context.Context, customer string) (string, error) {
	if err := f.lookups.Wait(ctx); err != nil {
		return "", err
	}
	inspector, _ := f.now(ctx) // the page says that it is not known
	return inspector.Held(ctx, customer), nil
}

// readChanges reads the last changes, unless the newest is the one that is known. The
// version alone does not tell: a Redis that has lost changes counts on from fewer.
func (f *fleet) readChanges(ctx context.Context) ([]insight.Logged, error) {
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

func sameChange(a, b insight.Logged) bool { return a.Version == b.Version && a.At.Equal(b.At) }

func (f *fleet) readLog(ctx context.Context, upTo int64, most int) ([]insight.Logged, error) {
	entries, err := f.own.Admin.Log(ctx, upTo, most)
	logged := make([]insight.Logged, len(entries))
	for i, entry := range entries {
		logged[i] = insight.LoggedOf(entry)
	}
	return logged, err
}

// expire makes all look again, after something was changed.
func (f *fleet) expire() {
	f.inspector.expire()
	f.customers.expire()
	f.held.expire()
	f.changes.expire()
	f.logPages.expire()
	f.history.expire()
}

// besides runs a step of a pass beside that of the page, which waits meanwhile. Each of
// the two begins its turn with keys that it need not wait for: that is waited for here,
// so that both together keep the pace.
func (f *fleet) besides(ctx context.Context, step func() (over bool, err error)) (over bool, err error) {
	f.alone.Lock()
	defer f.alone.Unlock()
	if over, err = step(); over || err != nil {
		return over, err
	}
	free := 2 * min(pageKeys, f.pace)
	select {
	case <-time.After(time.Duration(free) * time.Second / time.Duration(f.pace)):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// ownPolicyName names the policy that a customer has by the workers' own options.
func (f *fleet) ownPolicyName(customer string) string {
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

var errSlow = errors.New("no answer of Redis yet")

// text returns an error's text as a page may show it.
func (f *fleet) text(err error) string {
	text := insight.OneLine(f.own.Hidden(err))
	if insight.Unreachable(err) && !errors.Is(err, errSlow) && !errors.Is(err, errClosed) {
		return "Redis at " + f.own.Server.Address + " cannot be reached: " + text
	}
	return text
}
