package script

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	return &Runner{client: client, habits: habitsOf(client), limit: newLimit()}
}

// Run runs one script and returns its reply.
func (r *Runner) Run(d *Deadline, call *Call) ([]int64, *Failure) {
	semaphore := r.limitOf(d, call.Key).calls.of(call.Key)
	cmd := new(command)
	cmd.prepare(d.context, call, false)
	late := r.do(d, semaphore, cmd)
	first := cmd.result(call, late, r.habits)
	if first.answered {
		r.noteAnswer()
		return cmd.Val(), nil
	}
	g := &group{
		semaphore: semaphore, calls: []Call{*call}, which: []int{0},
		replies: make([][]int64, 1), failures: make([]*Failure, 1),
	}
	if r.settle(d, g, 1, []result{first}) {
		r.run(d, g, 2)
	}
	return g.replies[0], g.failures[0]
}

// RunEach runs one script for each of at most MaxPipeline calls, in one round trip
// to each node unless something has to be tried again: calls of one customer may
// then change their order. Where the client tells nodes apart they are asked at the
// same time, and a node that hangs delays its own calls only. It returns a reply or
// a failure for each.
func (r *Runner) RunEach(d *Deadline, calls []Call) ([][]int64, []*Failure) {
	replies, failures := make([][]int64, len(calls)), make([]*Failure, len(calls))
	of := make(map[*limit]*group) // by the node that the keys live on
	var groups []*group
	for i := range calls {
		limit := r.limitOf(d, calls[i].Key)
		g := of[limit]
		if g == nil {
			g = &group{semaphore: limit.pipelines.of(calls[i].Key), calls: calls, replies: replies, failures: failures}
			of[limit], groups = g, append(groups, g)
		}
		g.which = append(g.which, i)
	}
	var running sync.WaitGroup
	for i := 1; i < len(groups); i++ {
		running.Go(func() { r.run(d, groups[i], 1) })
	}
	if len(groups) > 0 { // in the caller's goroutine: while it waits for its turn, it costs no other
		r.run(d, groups[0], 1)
	}
	running.Wait()
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

func (r *Runner) noteAnswer() {
	if !r.answered.Load() {
		r.answered.Store(true)
	}
}

// group is calls that are sent together, and what is known of them.
type group struct {
	semaphore semaphore
	calls     []Call
	which     []int // of calls, in their order, wait for a reply
	replies   [][]int64
	failures  []*Failure
	missing   map[*Script]bool // some node does not know it
	astray    map[int]bool     // not run where the key was looked for: its slot moves
	before    map[int]Failure  // how the last try ended; Unknown if any did
}

// run sends the calls of a group until each has its reply or its failure.
func (r *Runner) run(d *Deadline, g *group, try int) {
	for ; ; try++ {
		pipe := newPipeline(d.context, g)
		late := r.do(d, g.semaphore, pipe)
		if !r.settle(d, g, try, pipe.results(g, late, r.habits)) {
			return
		}
	}
}

// settle sorts a group's calls by the results of a try: they have a reply, or are tried
// again, or have failed. It pauses before a further try, and returns false if there is none.
func (r *Runner) settle(d *Deadline, g *group, try int, results []result) bool {
	if g.before == nil {
		g.missing, g.astray, g.before = make(map[*Script]bool), make(map[int]bool), make(map[int]Failure)
	}
	again, wait, reload := false, false, false
	for at, i := range g.which {
		result := &results[at]
		switch {
		case result.answered:
			r.noteAnswer()
			continue
		case result.noScript:
			g.missing[g.calls[i].Script], g.astray[i] = true, result.astray
		case !isReply(result.Err):
			reload = true
		}
		if g.before[i].Outcome == Unknown {
			result.Outcome = Unknown
		}
		again = again || result.again || result.noScript
		wait = wait || result.again
	}
	if reload {
		r.reload()
	}
	again = again && d.Err() == nil && (!wait || r.pause(d, try))

	var left []int
	var last result
	var shared *Failure // Calls that failed alike share a failure: there may be many.
	for at, i := range g.which {
		switch result := results[at]; {
		case result.answered:
		case again && (result.again || result.noScript):
			g.before[i] = result.Failure
			left = append(left, i)
		default:
			if shared == nil || last.Outcome != result.Outcome || last.Err.Error() != result.Err.Error() {
				last, shared = result, &Failure{result.Outcome, r.explain(d, &result, g.before[i].Err)}
			}
			g.failures[i] = shared
		}
	}
	g.which = left
	return len(left) > 0
}

// isReply reports whether an error is Redis's own.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// pipeline is the commands of a group, and before them the scripts that a node may not know.
type pipeline struct {
	loads    []*load
	commands []command
}

func newPipeline(ctx context.Context, g *group) *pipeline {
	p := &pipeline{commands: make([]command, len(g.which))}
	loads := make(map[*Script]bool)
	for at, i := range g.which {
		call := &g.calls[i]
		if (call.Ordered || g.missing[call.Script]) && !loads[call.Script] {
			loads[call.Script] = true
			p.loads = append(p.loads, newLoad(ctx, call))
		}
		p.commands[at].prepare(ctx, call, g.astray[i])
	}
	return p
}

func (p *pipeline) send(ctx context.Context, client Client) {
	pipe := client.Pipeline()
	for _, load := range p.loads {
		_ = pipe.Process(ctx, load)
	}
	for i := range p.commands {
		_ = pipe.Process(ctx, &p.commands[i])
	}
	_, _ = pipe.Exec(ctx)
}

// results returns what became of each command of a group, and keeps the replies.
func (p *pipeline) results(g *group, late *overdue, client habits) []result {
	results := make([]result, len(p.commands))
	for at, i := range g.which {
		result := p.commands[at].result(&g.calls[i], late, client)
		if result.answered {
			g.replies[i] = p.commands[at].Val()
		}
		for _, load := range p.loads {
			switch call := &g.calls[i]; {
			case !result.noScript || load.call.Script != call.Script:
			case load.Err() != nil:
				result = classify(&Call{ReadOnly: true}, load.Err(), true)
			case load.call.Key == call.Key: // else this is another node, which learns it in the next try
				result.again, result.astray = true, true
			}
		}
		results[at] = result
	}
	return results
}

// job is a command or many.
type job interface {
	send(ctx context.Context, client Client)
}

// do sends a job and waits until it is answered. If the time is over first, it says
// so, and what the job holds must not be read: the job goes on by itself, for as
// long as the client's own timeouts let it.
func (r *Runner) do(d *Deadline, semaphore semaphore, job job) *overdue {
	ctx := d.context
	if d.endless() {
		job.send(ctx, r.client)
		return nil
	}
	if err := d.Err(); err != nil {
		return newOverdue(err)
	}
	select {
	case semaphore <- struct{}{}:
	case <-ctx.Done():
		return newOverdue(fmt.Errorf("%w (too many concurrent calls)", d.Err()))
	}
	done := make(chan struct{})
	go func() {
		defer func() { <-semaphore }()
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
		if cause := r.probe.why(rest, r.client); cause != nil {
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
