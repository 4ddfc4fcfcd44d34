// Package control lets operators change a running fleet's levels without a deployment: the
// policies, and temporarily the levels of single customers.
//
// An override is a key beside the customer's numbers, which each decision reads. The policies
// for all customers are in one key, which all workers follow.
//
// A worker calls [Follow] with its store, as fleet.Join does. An operator's program uses an
// [Admin], as priorityctl does.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/lua"
)

var (
	// ErrLost: Redis has no policies, or older ones than the Follower has read, as after a
	// restart without its data or a failover to a replica that lagged. The policies that are
	// followed stay in force until operators apply, import or withdraw policies.
	ErrLost = errors.New("control: Redis lost what operators set")

	// ErrCorrupt: the key named in the message holds something that this module does not
	// write.
	ErrCorrupt = errors.New("control: corrupt")

	// ErrNewer: a later version of this module wrote what the message names.
	ErrNewer = errors.New("control: written by a later version of the module")
)

// Options configures a [Follower]. The zero value works.
type Options struct {
	// Interval is how often to check for changed policies, with one short command. At least 10
	// ms, at most a minute. Default: 500 ms, so that a change is followed within a second.
	Interval time.Duration

	// OnChange is called when the Follower starts to follow other policies, and when the
	// reason in Status.Code changes or goes away. It must return soon. Calls do not overlap.
	// Default: none.
	OnChange func(Status)
}

const (
	defaultInterval  = 500 * time.Millisecond
	shortestInterval = 10 * time.Millisecond
	longestInterval  = time.Minute

	// readTimeout is how long one reading of the policies may take.
	readTimeout = 500 * time.Millisecond
)

// Follower makes a RedisStore decide by the policies that operators have set. It checks for
// changes every Interval, in the background, and no call of the store waits for that. A change
// never loses or doubles a document, because counts do not depend on policies.
//
// Until the policies have been read once, and if operators never set any, the store's own
// options apply. While the policies cannot be read or used, or if Redis lost them, the known
// ones apply; see Status. Policies with more levels than the store's Last are not used, as a
// queue is declared with that many.
//
// It is safe for concurrent use. Close it before the store's client.
type Follower struct {
	store    *priority.RedisStore
	runner   *script.Runner
	key      string
	interval time.Duration
	onChange func(Status)

	known atomic.Pointer[known]
	ask   chan chan error // follow answers when it has read the policies
	live  context.Context // ends with Close
	stop  context.CancelFunc
	ended chan struct{} // closed when reading has stopped
}

// known is what a Follower knows. It is immutable.
type known struct {
	Status
	followed stored // version 0: none were ever set
	text     string // what the key held when followed was read
	newest   stored // the newest that was ever read, usable or not
	head     string // the beginning of the key's text, which lua/follow.lua compares
	refused  error  // why the policies that were read are not followed
}

// Follow begins to follow, for a store on the client. The store reads overrides itself, if its
// options say so. Nil opts are the defaults. An error wraps [priority.ErrInvalid].
func Follow(client priority.RedisClient, store *priority.RedisStore, opts *Options) (*Follower, error) {
	if typednil.Is(client) || store == nil {
		return nil, fmt.Errorf("%w option: the client or the store is nil", priority.ErrInvalid)
	}
	if opts == nil {
		opts = &Options{}
	}
	f := &Follower{
		store: store, runner: script.NewRunner(client), key: keys.Prefix(store.Prefix()).Policies(),
		interval: cmp.Or(opts.Interval, defaultInterval), onChange: opts.OnChange,
		ask: make(chan chan error), ended: make(chan struct{}),
	}
	if f.interval < shortestInterval || f.interval > longestInterval {
		return nil, fmt.Errorf("%w option: Interval %v is not from %v to %v", priority.ErrInvalid, opts.Interval, shortestInterval, longestInterval)
	}
	f.live, f.stop = context.WithCancel(context.Background())
	f.known.Store(&known{Status: Status{Following: Following{Own: true}}})
	go f.run()
	return f, nil
}

// Status returns what the Follower knows. It sends nothing.
func (f *Follower) Status() Status { return f.known.Load().Status }

// run reads the policies when Refresh asks for it and every interval, give or take a tenth,
// so that the processes of a fleet do not all ask at once.
func (f *Follower) run() {
	defer close(f.ended)
	for due := time.Duration(0); ; due = f.interval*9/10 + rand.N(f.interval/5+1) {
		var answer chan error
		select {
		case <-time.After(due):
		case answer = <-f.ask:
		case <-f.live.Done():
			return
		}
		text, changed, err := f.read()
		if err == nil || f.live.Err() == nil { // else that is why it failed
			err = f.take(text, changed, err)
		}
		if answer != nil {
			answer <- err
		}
	}
}

// Refresh reads the policies now, as before a worker's first document, unless ctx ends
// first. It returns Status.Err.
func (f *Follower) Refresh(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case f.ask <- answer:
	case <-ctx.Done():
		return fmt.Errorf("control: the policies were not read: %w", ctx.Err())
	case <-f.live.Done():
		return errors.New("control: the follower is closed")
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("control: the policies were not read: %w", ctx.Err())
	}
}

// Close stops following changes, and gives up waiting when ctx ends. The store goes on with the
// known policies. Close may be called again.
func (f *Follower) Close(ctx context.Context) error {
	f.stop()
	select {
	case <-f.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("control: the policies are being read: %w", ctx.Err())
	}
}

var followScript = script.New(lua.Follow)

// read returns the content of the policies' key, unless it is known already.
func (f *Follower) read() (text string, changed bool, err error) {
	d := script.Begin(f.live, readTimeout)
	defer d.End()
	reply, failure := f.runner.Run(&d, &script.Call{
		Script: followScript, Key: f.key, Args: []any{f.known.Load().head}, ReadOnly: true,
	})
	switch {
	case failure != nil && failure.Outcome == script.Corrupt:
		return "", false, refusal{Corrupt, "", fmt.Errorf("%w: %q: %w", ErrCorrupt, f.key, failure.Err)}
	case failure != nil:
		return "", false, fmt.Errorf("control: cannot read %q: %w", f.key, failure.Err)
	case len(reply.Values) == 1:
		return "", false, nil
	case len(reply.Values) == 2:
		if text, ok := reply.Values[1].(string); ok {
			return text, true, nil
		}
	}
	return "", false, refusal{Corrupt, "", fmt.Errorf("%w: %q: unexpected reply", ErrCorrupt, f.key)}
}

// take updates what is known from a reading.
func (f *Follower) take(text string, changed bool, err error) error {
	before := f.known.Load()
	next := *before
	if err == nil {
		next.ReadAt = time.Now()
		if changed {
			next.head = headOf(text)
			next.refused = f.use(&next, text)
		}
		err = next.refused
	}
	next.note(err)
	f.known.Store(&next)
	if f.onChange != nil && (next.text != before.text || next.Following != before.Following) {
		f.onChange(next.Status)
	}
	return next.Err
}

// use follows the policies that were read, or returns why not.
func (f *Follower) use(next *known, text string) error {
	if text == next.text && next.newest.isSame(next.followed) {
		return nil
	}
	if text == "" {
		return lost(next.newest.Version, "none")
	}
	read, err := parse(f.key, text)
	if err != nil {
		return err
	}
	if !read.isAfter(next.newest) && !read.isSame(next.newest) {
		return lost(next.newest.Version, fmt.Sprint(read.Version))
	}
	next.newest = read
	err = read.invalid
	if err == nil {
		err = f.store.Follow(read.Policies)
	}
	if err != nil {
		return invalid(read.Version, err)
	}
	next.followed, next.text, next.Policies = read, text, read.Policies
	next.Version, next.Own = read.Version, read.Policies == nil
	return nil
}

func lost(known int64, found string) error {
	detail := fmt.Sprintf("version %d was known, %s is there", known, found)
	return refusal{Lost, detail, fmt.Errorf("%w: %s", ErrLost, detail)}
}
