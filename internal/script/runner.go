package script

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
)

// Client is what a Runner needs of a go-redis client.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// cluster is a client that knows the nodes of keys.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
}

// Runner runs scripts. It is safe for concurrent use.
type Runner struct {
	client   Client
	habits   habits
	limit    *limit // where the client does not tell nodes apart
	nodes    nodes
	probe    probe
	answered atomic.Bool // some call was, so a cluster's client knows its nodes
}

// NewRunner returns a Runner on a client. It sends nothing.
func NewRunner(client Client) *Runner {
	return &Runner{client: client, habits: habitsOf(client), limit: newLimit(client)}
}

// Run runs one script and returns its reply. The first call of a script goes a little ahead: else
// as many as come at once would find that Redis does not know it, and a user's circuit breaker open.
func (r *Runner) Run(d *Deadline, call *Call) (Reply, *Failure) {
	limit := r.limitOf(d, call.Key)
	known, first := limit.known(call.Script)
	if first {
		defer close(known)
	} else {
		limit.await(d, known)
	}
	cmd := new(command)
	cmd.prepare(d.context, call, false, limit.clock.deadline(d))
	sent := time.Now()
	late := r.do(d, limit.calls, cmd)
	tried := cmd.result(call, late, r.habits)
	if tried.answered {
		r.noteAnswer(limit)
		reply := cmd.reply()
		limit.clock.learn(call, &reply, sent)
		return reply, nil
	}
	again := *call // so that a call that works needs not outlive this one
	again.OtherKeys, again.Args = slices.Clone(call.OtherKeys), slices.Clone(call.Args)
	a := attempt{call: &again}
	g := &group{limit: limit, places: limit.calls, left: []*attempt{&a}}
	if r.settle(d, g, 1, []result{tried}, sent) {
		r.run(d, g, 2)
	}
	return a.reply, a.failure
}

// RunEach runs one script for each of at most MaxPipeline calls, in one round trip
// to each node unless something has to be tried again: calls of one customer may
// then change their order. Where the client tells nodes apart they are asked at the
// same time, and a node that hangs delays its own calls only. It returns a reply or
// a failure for each.
func (r *Runner) RunEach(d *Deadline, calls []Call) ([]Reply, []*Failure) {
	attempts, byNode := make([]attempt, len(calls)), make(map[*limit]*group)
	var groups []*group
	for i := range calls {
		attempts[i].call = &calls[i]
		limit := r.limitOf(d, calls[i].Key)
		g := byNode[limit]
		if g == nil {
			g = &group{limit: limit, places: limit.pipelines}
			byNode[limit], groups = g, append(groups, g)
		}
		g.left = append(g.left, &attempts[i])
	}
	var running sync.WaitGroup
	for i := 1; i < len(groups); i++ {
		running.Go(func() { r.run(d, groups[i], 1) })
	}
	if len(groups) > 0 { // in the caller's goroutine: while it waits for its turn, it costs no other
		r.run(d, groups[0], 1)
	}
	running.Wait()
	replies, failures := make([]Reply, len(calls)), make([]*Failure, len(calls))
	for i := range attempts {
		replies[i], failures[i] = attempts[i].reply, attempts[i].failure
	}
	return replies, failures
}

// limitOf returns the limit of the node that a key lives on, if the client knows that
// without asking.
func (r *Runner) limitOf(d *Deadline, key string) *limit {
	if c, ok := r.client.(cluster); ok && r.answered.Load() {
		if node, err := c.MasterForKey(d.context, key); err == nil { // else go-redis will find out
			return r.nodes.limit(node)
		}
	}
	return r.limit
}

func (r *Runner) noteAnswer(limit *limit) {
	if !r.answered.Load() {
		r.answered.Store(true)
	}
	if limit.broken.Load() > 0 {
		limit.broken.Store(0)
	}
}

// group is calls that are sent together.
type group struct {
	limit   *limit
	places  chan struct{}    // those of them that it takes
	left    []*attempt       // that have neither a reply nor a failure yet
	missing map[*Script]bool // some node does not know it
}

// attempt is one call and what is known of it.
type attempt struct {
	call     *Call
	before   Failure // how the try before this one ended; Unknown if any before it did
	withText bool    // the text goes along: its slot moves, or the script cannot be loaded
	apart    bool    // the override is read by itself: its slot moves
	untimed  bool    // no deadline goes along: it was over, by Redis's clock, while the call still waits

	reply   Reply
	failure *Failure
}

// run sends the calls of a group until each has its reply or its failure.
func (r *Runner) run(d *Deadline, g *group, try int) {
	for ; ; try++ {
		pipe := newPipeline(d, g)
		sent := time.Now()
		late := r.do(d, g.places, pipe)
		if !r.settle(d, g, try, pipe.results(g, late, r.habits), sent) {
			return
		}
	}
}

// settle gives each call its reply or its failure by the result of a try, except those that
// another try may help, for which it waits. It returns false if there are none.
func (r *Runner) settle(d *Deadline, g *group, try int, results []result, sent time.Time) bool {
	again := r.awaitNext(d, g.limit, try, results)
	attempts := g.left
	g.left = nil
	var last Failure    // before it was explained
	var shared *Failure // Calls that failed alike share a failure: there may be many.
	for i, a := range attempts {
		result := &results[i]
		if result.answered {
			r.noteAnswer(g.limit)
			a.reply = result.reply
			g.limit.clock.learn(a.call, &a.reply, sent)
			continue
		}
		if a.before.Outcome == Unknown {
			result.Outcome = Unknown
		}
		if again && (result.again || result.noScript) {
			g.note(a, result)
			g.left = append(g.left, a)
			continue
		}
		if shared == nil || last.Outcome != result.Outcome || last.Err.Error() != result.Err.Error() {
			last, shared = result.Failure, &Failure{result.Outcome, r.explain(d, result, a.before.Err)}
		}
		a.failure = shared
	}
	return len(g.left) > 0
}

// note records what the next try of a call has to know.
func (g *group) note(a *attempt, result *result) {
	a.before = result.Failure
	if a.untimed = a.untimed || result.late; result.late {
		g.limit.clock.forget() // it has stepped
	}
	a.apart = a.apart || a.call.Override && strings.HasPrefix(result.Err.Error(), "TRYAGAIN ")
	if result.noScript {
		if g.missing == nil {
			g.missing = make(map[*Script]bool)
		}
		g.missing[a.call.Script], a.withText = true, result.astray
	}
}

// awaitNext waits until it is time for another try, and reports whether there is one. Of idle
// connections that the other end has closed there may be as many as the client has: no call
// waits because of them, until more in a row were broken.
func (r *Runner) awaitNext(d *Deadline, limit *limit, try int, results []result) bool {
	again, wait, broken := false, false, false
	for i := range results {
		result := &results[i]
		again = again || result.again || result.noScript
		wait = wait || result.again && !result.broken
		broken = broken || result.again && result.broken
	}
	if broken && limit.broken.Add(1) > int32(cap(limit.calls)) {
		wait = true
	}
	if slices.ContainsFunc(results, func(result result) bool { return !result.answered && !isReply(result.Err) }) {
		r.reload()
	}
	return again && d.Err() == nil && (!wait || r.pause(d, try))
}

// isReply reports whether an error is Redis's own.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// pipeline is the commands of a group, and before them the scripts that a node may not know.
type pipeline struct {
	loads     map[*Script]*load
	overrides map[int]*redis.StringCmd // by the command before which they are read
	commands  []command
	within    lasting
}

func newPipeline(d *Deadline, g *group) *pipeline {
	ctx, deadline := d.context, g.limit.clock.deadline(d)
	p := &pipeline{commands: make([]command, len(g.left)), loads: make(map[*Script]*load), overrides: make(map[int]*redis.StringCmd)}
	for i, a := range g.left {
		call := a.call
		if a.apart {
			alone, last := *call, len(call.OtherKeys)-1
			p.overrides[i] = redis.NewStringCmd(ctx, "get", call.OtherKeys[last])
			alone.OtherKeys, call = call.OtherKeys[:last], &alone
		}
		if script := a.call.Script; (a.call.Ordered || g.missing[script]) && p.loads[script] == nil {
			p.loads[script] = newLoad(ctx, a.call)
		}
		if a.untimed {
			p.commands[i].prepare(ctx, call, a.withText, 0)
		} else {
			p.commands[i].prepare(ctx, call, a.withText, deadline)
		}
	}
	return p
}

func (p *pipeline) send(ctx context.Context, client Client) {
	pipe := client.Pipeline()
	for _, load := range p.loads {
		_ = pipe.Process(ctx, load)
	}
	for i := range p.commands {
		if override := p.overrides[i]; override != nil {
			_ = pipe.Process(ctx, override)
		}
		_ = pipe.Process(ctx, &p.commands[i])
	}
	_, _ = pipe.Exec(ctx)
}

// results returns what became of each command of a group.
func (p *pipeline) results(g *group, late *overdue, client habits) []result {
	results := make([]result, len(p.commands))
	for i, a := range g.left {
		result := p.commands[i].result(a.call, late, client)
		if load := p.loads[a.call.Script]; result.noScript && load != nil {
			switch {
			case load.Err() != nil: // SCRIPT is not to be had here
				result.astray = true
			case load.key == a.call.Key: // else this is another node, which learns it in the next try
				result.again, result.astray = true, true
			}
		}
		if override := p.overrides[i]; override != nil && result.answered {
			result.reply.Override = override.Val()
			if err := override.Err(); err != nil && !errors.Is(err, redis.Nil) && !strings.HasPrefix(err.Error(), "WRONGTYPE ") {
				result = lost(a.call, err)
			}
		}
		results[i] = result
	}
	return results
}

func (p *pipeline) context() *lasting { return &p.within }

func (p *pipeline) written() bool {
	for i := range p.commands {
		if p.commands[i].written() {
			return true
		}
	}
	return false
}

// job is a command or many.
type job interface {
	send(ctx context.Context, client Client)
	context() *lasting // room for the context in which it is sent
	written() bool     // or at least a part of it was
}

// do sends a job and waits until it is answered. If the time is over first, it says
// so, and what the job holds must not be read: the job goes on by itself, for as
// long as the client's own timeouts let it, and so makes a connection for later calls.
func (r *Runner) do(d *Deadline, places chan struct{}, job job) *overdue {
	ctx := d.context
	if d.endless() {
		job.send(ctx, r.client)
		return nil
	}
	if err := d.Err(); err != nil {
		return newOverdue(err)
	}
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return newOverdue(fmt.Errorf("%w (as many calls as the client's pool allows wait for answers)", d.Err()))
	}
	done, within := make(chan struct{}), job.context()
	*within = lasting{Context: ctx, job: job, long: d.long}
	go func() {
		defer func() {
			within.panicked = recover()
			<-places
			close(done)
		}()
		job.send(within, r.client)
	}()
	select {
	case <-done:
		return within.end()
	case <-ctx.Done():
	}
	if job.written() { // its answer may still come
		rest, cancel := d.rest()
		defer cancel()
		select {
		case <-done:
			return within.end()
		case <-rest.Done():
		}
	}
	return newOverdue(d.Err())
}

// reload makes a cluster client look up the slots again when a node fails. It
// would do so on its own retries, which are disabled here.
func (r *Runner) reload() {
	if cluster, ok := r.client.(interface{ ReloadState(context.Context) }); ok {
		cluster.ReloadState(context.Background())
	}
}

// explain returns a failure's error with what else is known of it: why there was
// no connection, that the time is over, and how an earlier try ended.
func (r *Runner) explain(d *Deadline, result *result, before error) error {
	err := result.Err
	if ended := d.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w (%w)", err, ended)
	}
	if result.unsent && errors.Is(err, context.DeadlineExceeded) && d.caller.Err() == nil && !d.end.IsZero() {
		rest, cancel := d.rest()
		defer cancel()
		if cause := r.probe.why(rest, r.client); cause != nil && !strings.Contains(err.Error(), cause.Error()) {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
	}
	if before != nil && !strings.HasPrefix(err.Error(), before.Error()) {
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
