package bench

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// load makes a decision for each of customers.
type load func(ctx context.Context, customers []string) error

// timed is a load whose server time is measured.
type timed struct {
	server    *server
	sent      *sentCommands // by the load
	documents documents     // of customers whom no other load has
	load      load
}

// serverTimes returns the microseconds that a server is busy with a decision of
// each load, all commands of the decision together. The loads take turns slice by
// slice, in random order: what disturbs the machine for longer than a slice
// disturbs all alike, and what is shorter is not in the median of a round's
// slices.
func (b *bench) serverTimes(ctx context.Context, what string, loads []timed) ([]samples, error) {
	all := make([]samples, len(loads))
	for round := range b.rounds + 1 { // the first warms up
		fmt.Fprintf(b.progress, "%s: round %d of %d\n", what, round, b.rounds)
		if err := b.prepare(ctx, loads); err != nil {
			return nil, err
		}
		times := make([]samples, len(loads))
		for slice := range loads[0].documents.slices {
			for _, i := range rand.Perm(len(loads)) {
				time, err := loads[i].time(ctx, slice)
				if err != nil {
					return nil, err
				}
				times[i] = append(times[i], time)
			}
		}
		for i := range all {
			if round > 0 {
				all[i] = append(all[i], times[i].median())
			}
		}
	}
	return all, nil
}

// prepare begins a round: the loads find the customers who have a count, and no
// others. Servers of loads without such customers stay as they are.
func (b *bench) prepare(ctx context.Context, loads []timed) error {
	cleared := make(map[*server]bool)
	for _, t := range loads {
		if t.documents.before == nil || cleared[t.server] {
			continue
		}
		cleared[t.server] = true
		if err := t.server.clear(ctx); err != nil {
			return err
		}
	}
	// By turns: Redis finds a key the faster, the later it came.
	for from := 0; from < b.customers; from += b.slice {
		for _, i := range rand.Perm(len(loads)) {
			before := loads[i].documents.before
			if err := loads[i].load(ctx, before[min(from, len(before)):min(from+b.slice, len(before))]); err != nil {
				return err
			}
		}
	}
	return nil
}

// time returns the microseconds of a decision of one slice.
func (t timed) time(ctx context.Context, slice int) (float64, error) {
	if err := t.server.client.ConfigResetStat(ctx).Err(); err != nil {
		return 0, err
	}
	t.sent.reset()
	customers := t.documents.slices[slice]
	if err := t.load(ctx, customers); err != nil {
		return 0, err
	}
	perCall, err := t.server.commandTimes(ctx)
	if err != nil {
		return 0, err
	}
	return timePerDecision(perCall, t.sent.calls(), len(customers))
}

// timePerDecision adds up what a client has sent.
func timePerDecision(perCall map[string]float64, sent map[string]int, decisions int) (float64, error) {
	total, commands := 0.0, 0
	for name, calls := range sent {
		microseconds, ok := perCall[name]
		if !ok {
			return 0, fmt.Errorf("the server's statistics have no %s, which was sent", name)
		}
		total += microseconds * float64(calls)
		commands += calls
	}
	if commands < decisions {
		return 0, fmt.Errorf("%d decisions, but only %d commands were seen", decisions, commands)
	}
	return total / float64(decisions), nil
}

// commandTimes returns the microseconds of a call of each command. That of
// EVALSHA includes what the script calls.
func (s *server) commandTimes(ctx context.Context) (map[string]float64, error) {
	stats, err := s.info(ctx, "commandstats")
	if err != nil {
		return nil, err
	}
	perCall := make(map[string]float64)
	for field, stat := range stats {
		var calls, microseconds int64
		if _, err := fmt.Sscanf(stat, "calls=%d,usec=%d,", &calls, &microseconds); err != nil {
			return nil, fmt.Errorf("INFO commandstats: %s:%s: %w", field, stat, err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(field, "cmdstat_"), "|") // as of script|load
		perCall[name] = float64(microseconds) / float64(calls)
	}
	return perCall, nil
}

// sentCommands is a go-redis hook that counts what a client sends. The server's
// own statistics also count what scripts call, which is in the script's time
// already.
type sentCommands struct {
	mu       sync.Mutex
	commands map[string]int
}

func (s *sentCommands) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = nil
}

// calls returns how often each command was sent, by its name in lower case.
func (s *sentCommands) calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.commands)
}

// add counts commands.
func (s *sentCommands) add(names ...string) {
	if names[0] == "hello" || names[0] == "client" {
		return // a new connection introduces itself, which is no decision's
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commands == nil {
		s.commands = make(map[string]int)
	}
	for _, name := range names {
		s.commands[name]++
	}
}

// DialHook implements [redis.Hook].
func (s *sentCommands) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (s *sentCommands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.add(cmd.Name())
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (s *sentCommands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		names := make([]string, len(cmds))
		for i, cmd := range cmds {
			names[i] = cmd.Name()
		}
		s.add(names...)
		return next(ctx, cmds)
	}
}

// serverTimeLoad says what the load was.
func (b *bench) serverTimeLoad() string {
	return fmt.Sprintf(`of %d callers of an AutoPipeliner; a round's figure is the median of %d slices of %d decisions,
		for random ones of %s customers and, one in %d, for new ones`,
		b.callers, b.decisions/b.slice, b.slice, whole(float64(b.customers)), newCustomers)
}
