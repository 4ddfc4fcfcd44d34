package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// load makes a decision for each of customers.
type load func(ctx context.Context, customers []string) error

// serverTime returns the microseconds that a server is busy with a decision, all
// commands of the decision together, on keys of this load alone.
func (s *server) serverTime(ctx context.Context, sent *sentCommands, documents documents, load load) (float64, error) {
	if err := s.clear(ctx); err != nil {
		return 0, err
	}
	if err := load(ctx, documents.before); err != nil {
		return 0, err
	}
	return s.serverTimeOfSlices(ctx, sent, documents.slices, load)
}

// serverTimeOfSlices is serverTime on the keys that are there. It returns the
// median of the slices. A slice is so short that few of them are hit when another
// process takes the CPU away, which the server's statistics count as its own time.
func (s *server) serverTimeOfSlices(ctx context.Context, sent *sentCommands, slices [][]string, load load) (float64, error) {
	var times samples
	for _, slice := range slices {
		if err := s.client.ConfigResetStat(ctx).Err(); err != nil {
			return 0, err
		}
		sent.reset()
		if err := load(ctx, slice); err != nil {
			return 0, err
		}
		perCall, err := s.commandTimes(ctx)
		if err != nil {
			return 0, err
		}
		time, err := timePerDecision(perCall, sent.calls(), len(slice))
		if err != nil {
			return 0, err
		}
		times = append(times, time)
	}
	return times.median(), nil
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
		perCall[strings.TrimPrefix(field, "cmdstat_")] = float64(microseconds) / float64(calls)
	}
	return perCall, nil
}

// sentCommands is a go-redis hook that counts what a client sends. The server's
// own statistics also count what scripts call, which is in the script's time
// already.
type sentCommands struct {
	mu         sync.Mutex
	commands   map[string]int
	roundTrips int
}

func (s *sentCommands) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands, s.roundTrips = nil, 0
}

// calls returns how often each command was sent, by its name in lower case.
func (s *sentCommands) calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.commands)
}

// add counts commands that make one round trip.
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
	s.roundTrips++
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
