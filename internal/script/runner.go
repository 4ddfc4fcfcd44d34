package script

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// MaxPipeline is the most commands that RunEach takes: it bounds the memory
	// that commands and their answers take at either end.
	MaxPipeline = 10_000

	// maxTries bounds how often a call without a deadline is tried.
	maxTries = 8
	// The pause before a further try doubles from firstPause to longestPause.
	firstPause, longestPause = 4 * time.Millisecond, 64 * time.Millisecond

	// firstTexts is how many commands of a script carry its text when some node
	// did not know it: likely one for every node.
	firstTexts = 64
)

// Client is what a Runner needs of a go-redis client.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// Runner runs scripts. It is safe for concurrent use.
type Runner struct {
	client   Client
	habits   habits
	deferred *deferred // nil: the client waits for each answer
	places   *places   // where the client does not tell nodes apart
	nodes    nodes
	reach    reach
	answered atomic.Bool // some call ever was: a cluster's client knows its nodes
}

// NewRunner returns a Runner on a client. It sends nothing.
func NewRunner(client Client) *Runner {
	return &Runner{client: client, habits: habitsOf(client), deferred: deferredOf(client), places: newPlaces()}
}

// Run runs one script and returns its reply.
func (r *Runner) Run(d *Deadline, call *Call) ([]int64, *Failure) {
	withText, maybeRun := false, false
	var before error
	for try := 1; ; try++ {
		cmd := new(single)
		cmd.prepare(d.caller, call, withText)
		over := r.doOne(d, r.placesOf(d, r.cluster(), call.Key).calls.of(call.Key), cmd)
		result := cmd.result(call, over, r.habits)
		if result.answered {
			r.answered.Store(true)
			return cmd.Val(), nil
		}
		r.notice(&result)
		maybeRun = maybeRun || result.Outcome == Unknown
		if result.noScript {
			withText = true
			continue
		}
		if result.again && d.Err() == nil && r.pause(d, try) {
			before = result.Err
			continue
		}
		failure := result.Failure
		if maybeRun {
			failure.Outcome = Unknown
		}
		failure.Err = r.explain(d, &result, before)
		return nil, &failure
	}
}

// RunEach runs one script for each of at most MaxPipeline calls, in one round trip
// to each node unless something has to be tried again: calls of one customer may
// then change their order. Where the client tells nodes apart they are asked at the
// same time, and a node that hangs delays its own calls only. It returns a reply or
// a failure for each.
func (r *Runner) RunEach(d *Deadline, calls []Call) ([][]int64, []*Failure) {
	d.Context() // for the groups, which are run at the same time
	replies, failures := make([][]int64, len(calls)), make([]*Failure, len(calls))
	groups := r.byNode(d, calls)
	var running sync.WaitGroup
	for _, g := range groups[1:] {
		running.Go(func() { r.runGroup(d, calls, g, replies, failures) })
	}
	r.runGroup(d, calls, groups[0], replies, failures)
	running.Wait()
	return replies, failures
}

// group is the calls of a RunEach whose keys live on one node.
type group struct {
	places *places
	which  []int
}

// runGroup runs the calls of one group, and sets their replies and failures.
func (r *Runner) runGroup(d *Deadline, calls []Call, g group, replies [][]int64, failures []*Failure) {
	maybeRun, before := make(map[int]bool), make(map[int]error)
	texts := 0
	for try := 1; len(g.which) > 0; {
		pipe := newPipeline(d.Context(), calls, g.which, texts)
		over := r.do(d, g.places.pipelines.of(calls[g.which[0]].Key), pipe)
		var again []int
		unknown, refused := false, false
		var last result // of those that failed
		var shared *Failure
		for at, i := range g.which {
			result := pipe[at].result(&calls[i], over, r.habits)
			if result.answered {
				r.answered.Store(true)
				replies[i], failures[i] = pipe[at].Val(), nil
				continue
			}
			if result.Outcome == Unknown && result.again {
				maybeRun[i] = true
			}
			if maybeRun[i] {
				result.Outcome = Unknown
			}
			// Calls that failed alike share a failure: there may be many.
			if shared == nil || last.Outcome != result.Outcome || last.Err.Error() != result.Err.Error() {
				r.notice(&result)
				last = result
				shared = &Failure{result.Outcome, r.explain(d, &result, before[i])}
			}
			failures[i] = shared
			if d.Err() == nil && (result.noScript || result.again) {
				again = append(again, i)
				before[i] = result.Err
				unknown = unknown || result.noScript
				refused = refused || result.again
			}
		}
		if unknown {
			texts = max(firstTexts, 2*texts)
		}
		g.which = again
		if refused {
			if !r.pause(d, try) {
				noMoreTries(d, failures, again)
				return
			}
			try++
		}
	}
}

// noMoreTries adds to failures why there was no further try.
func noMoreTries(d *Deadline, failures []*Failure, which []int) {
	added := make(map[*Failure]*Failure) // those that calls share stay shared
	for _, i := range which {
		was := failures[i]
		if added[was] == nil {
			added[was] = &Failure{was.Outcome, withEnd(d, was.Err)}
		}
		failures[i] = added[was]
	}
}

// withEnd adds to an error that the time is over, if it is.
func withEnd(d *Deadline, err error) error {
	if ended := d.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w (%w)", err, ended)
	}
	return err
}

// byNode sorts calls by the node that their keys live on. There is at least one
// group.
func (r *Runner) byNode(d *Deadline, calls []Call) []group {
	cluster := r.cluster()
	of := make(map[*places]int)
	var groups []group
	for i := range calls {
		places := r.placesOf(d, cluster, calls[i].Key)
		at, ok := of[places]
		if !ok {
			at = len(groups)
			of[places] = at
			groups = append(groups, group{places: places})
		}
		groups[at].which = append(groups[at].which, i)
	}
	return groups
}

// cluster is a client that knows the nodes of keys.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
}

// cluster returns the client if it knows the nodes of keys without asking.
func (r *Runner) cluster() cluster {
	if c, ok := r.client.(cluster); ok && r.answered.Load() {
		return c
	}
	return nil
}

// placesOf returns the places of the node that a key lives on.
func (r *Runner) placesOf(d *Deadline, c cluster, key string) *places {
	if c == nil {
		return r.places
	}
	node, err := c.MasterForKey(d.Context(), key)
	if err != nil { // go-redis will find out
		return r.places
	}
	return r.nodes.places(node)
}

// pipeline is commands that are sent together.
type pipeline []command

// newPipeline makes the commands of some calls. Up to texts commands of each script,
// and all that are ordered, carry its text; a node that runs one of these knows the
// script when it comes to the others.
func newPipeline(ctx context.Context, calls []Call, which []int, texts int) pipeline {
	p := make(pipeline, len(which))
	given := make(map[*Script]int)
	for at, i := range which {
		script := calls[i].Script
		withText := calls[i].Ordered || given[script] < texts
		if withText {
			given[script]++
		}
		p[at].prepare(ctx, &calls[i], withText)
	}
	return p
}

func (p pipeline) send(ctx context.Context, client Client) {
	pipe := client.Pipeline()
	for i := range p {
		_ = pipe.Process(ctx, &p[i])
	}
	_, _ = pipe.Exec(ctx)
}

// job is a command or many.
type job interface {
	send(ctx context.Context, client Client)
}

// doOne is do for a single command. A deferred AutoPipeliner needs no goroutine that
// waits for it.
func (r *Runner) doOne(d *Deadline, lane lane, cmd *single) *overdue {
	// Before the first answer, it may ask a cluster's nodes which commands there are.
	if r.deferred == nil || d.endless() || !r.answered.Load() {
		return r.do(d, lane, &cmd.command)
	}
	place, over := r.enter(d, lane)
	if over != nil {
		return over
	}
	answer := r.deferred.queue(d.caller, cmd)
	if cmd.await(d, answer) {
		place.leave()
		return nil
	}
	go func() { // it is still under way
		defer place.leave()
		_ = answer.Wait()
	}()
	return newOverdue(d.Err())
}

// do sends a job and waits until it is answered or the time is over, whichever is
// first, and says so if that is the time. What the job holds may then not be read:
// it goes on by itself, for as long as the client's own timeouts let it.
func (r *Runner) do(d *Deadline, lane lane, job job) *overdue {
	if d.endless() {
		job.send(d.caller, r.client)
		return nil
	}
	ctx := d.Context()
	place, over := r.enter(d, lane)
	if over != nil {
		return over
	}
	done := make(chan struct{})
	go func() {
		defer place.leave()
		job.send(ctx, r.client)
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	rest, cancel := d.rest()
	defer cancel()
	select {
	case <-done:
		return nil
	case <-rest.Done():
		return newOverdue(d.Err())
	}
}

// enter waits for a place, if there is still time.
func (r *Runner) enter(d *Deadline, lane lane) (place, *overdue) {
	if err := d.Err(); err != nil {
		return nil, newOverdue(err)
	}
	place := lane.try()
	if place == nil {
		place = lane.enter(d.over())
	}
	if place == nil {
		return nil, newOverdue(fmt.Errorf("%w (as many calls as may be are under way)", d.Err()))
	}
	return place, nil
}

// notice makes a cluster client look where the slots are now when a node fails.
// It would by itself when it tries again, which is not its business here.
func (r *Runner) notice(result *result) {
	if reply := redis.Error(nil); errors.As(result.Err, &reply) {
		return
	}
	if cluster, ok := r.client.(interface{ ReloadState(context.Context) }); ok {
		cluster.ReloadState(context.Background())
	}
}

// explain returns a failure's error with what else is known of it: why there was
// no connection, why there was no further try, and how an earlier one ended.
func (r *Runner) explain(d *Deadline, result *result, before error) error {
	err := withEnd(d, result.Err)
	if result.unsent && errors.Is(err, context.DeadlineExceeded) && d.caller.Err() == nil && !d.end.IsZero() {
		rest, cancel := d.rest()
		defer cancel()
		if reason := r.reach.why(rest, r.client); reason != nil {
			err = fmt.Errorf("%w: %w", err, reason)
		}
	}
	if before != nil && before.Error() != err.Error() {
		err = fmt.Errorf("%w; before that: %w", err, before)
	}
	return err
}

// pause waits before a further try. It returns false if there is none: the time is
// over, or there is no deadline and these were enough.
func (r *Runner) pause(d *Deadline, try int) bool {
	if d.end.IsZero() && try >= maxTries {
		return false
	}
	long := min(firstPause<<min(try-1, 10), longestPause)
	return d.pause(long/2 + rand.N(long/2))
}
