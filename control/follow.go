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
	key, log string
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
	head     string // how the text that is followed begins, which lua/follow.lua compares
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
		store: store, runner: script.NewRunner(client), key: keys.Prefix(store.Prefix()).Policies(), log: keys.Prefix(store.Prefix()).Log(),
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
		read, err := f.read()
		if err == nil || f.live.Err() == nil { // else that is why it failed
			err = f.take(read, err)
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

// reading is what lua/follow.lua replied.
type reading struct {
	changed bool   // false: what is followed is there, and the rest is empty
	now     int64  // Redis's time in milliseconds
	latest  int64  // the same when operators last changed something; 0: that is not known
	text    string // what the policies' key holds
}

// read reads the policies.
func (f *Follower) read() (read reading, err error) {
	d := script.Begin(f.live, readTimeout)
	defer d.End()
	reply, failure := f.runner.Run(&d, &script.Call{
		Script: followScript, Key: f.key, OtherKeys: []string{f.log}, Args: []any{f.known.Load().head}, ReadOnly: true,
	})
	switch {
	case failure != nil && failure.Outcome == script.Corrupt:
		return read, refusal{Corrupt, "", fmt.Errorf("%w: %q: %w", ErrCorrupt, f.key, failure.Err)}
	case failure != nil:
		return read, fmt.Errorf("control: cannot read %q: %w", f.key, failure.Err)
	}
	if len(reply.Values) < 2 {
		return read, fmt.Errorf("control: cannot read %q: Redis replied %v", f.key, reply.Values)
	}
	read.now, _ = reply.Values[0].(int64)
	read.latest, _ = reply.Values[1].(int64)
	if read.changed = len(reply.Values) > 2; read.changed {
		read.text, _ = reply.Values[2].(string)
	}
	return read, nil
}

// take updates what is known from a reading.
func (f *Follower) take(read reading, err error) error {
	before := f.known.Load()
	next := *before
	if err == nil {
		next.ReadAt = time.Now()
		if latest := time.UnixMilli(min(read.latest, read.now)); latest.After(next.Changed) && read.latest > 0 {
			next.Changed = latest
		}
		if read.changed {
			next.head = "refused" // so that it is read again: people may repair it and leave its beginning
			if err = f.use(&next, read); err == nil {
				next.head = head.FindString(read.text)
			}
		}
	}
	next.note(err)
	f.known.Store(&next)
	if f.onChange != nil && (next.text != before.text || next.Following != before.Following) {
		f.onChange(next.Status)
	}
	return next.Err
}

// use follows the policies that were read, or returns why not.
func (f *Follower) use(next *known, read reading) error {
	if read.text == next.text && next.newest.isSame(next.followed) {
		return nil
	}
	if read.text == "" {
		return lost(next.newest.Version, "none")
	}
	set, err := parse(f.key, read.text)
	if err != nil {
		return err
	}
	if !set.isAfter(next.newest) && !set.isSame(next.newest) {
		return lost(next.newest.Version, fmt.Sprint(set.Version))
	}
	set.changed = min(set.changed, read.now) // a time to come would outdo all later changes
	next.newest = set
	err = set.invalid
	if err == nil {
		err = f.store.Follow(set.Policies)
	}
	if err != nil {
		return invalid(set.Version, err)
	}
	next.followed, next.text, next.Policies = set, read.text, set.Policies
	next.Version, next.Own = set.Version, set.Policies == nil
	return nil
}

func lost(known int64, found string) error {
	detail := fmt.Sprintf("version %d was known, %s is there", known, found)
	return refusal{Lost, detail, fmt.Errorf("%w: %s", ErrLost, detail)}
}
