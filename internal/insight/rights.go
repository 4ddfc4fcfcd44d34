package insight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The rights that a user of Redis needs, as ACL SETUSER takes them: callers of
// Submit, Done or Peek need both.
const (
	NextRights   = "+evalsha +script|load +get +set +decr +decrby +incrby +pexpire +pttl +unlink"
	SubmitRights = "+zadd +zcard +zcount +zmscore +zrange +zrem +pexpireat +time"
)

// The checks of rights.
const (
	checkOfNext   = "next"
	checkOfSubmit = "submit"
)

// checkRights does what workers do, for a customer whose keys the node holds.
func (e *examination) checkRights(ctx context.Context, node master) error {
	customer, err := e.customerOn(ctx, node)
	if err != nil {
		return err
	}
	for _, use := range []struct {
		check, remedy string
		steps         []func() error
	}{
		{checkOfNext, "grant " + NextRights + " on the keys ~" + e.prefix() + ":*", []func() error{
			func() error { _, err := e.Store.Next(ctx, customer); return err },
			func() error { _, err := e.Store.NextN(ctx, customer, 2); return err },
			func() error { return e.Store.Reset(ctx, customer) },
		}},
		{checkOfSubmit, "who calls Submit, Done or Peek, as get does, needs " + SubmitRights + " too, on the same keys", []func() error{
			func() error { _, err := e.Store.Submit(ctx, customer, "document", 0); return err },
			func() error { _, err := e.Store.Peek(ctx, customer); return err },
			func() error { _, err := e.Store.Done(ctx, customer, "document", 0); return err },
			func() error { return e.Store.Reset(ctx, customer) },
		}},
	} {
		var failed error
		for _, step := range use.steps {
			if failed = cmp.Or(failed, step()); failed != nil {
				break
			}
		}
		if Unreachable(failed) {
			return failed
		}
		status, remedy := StatusFailed, use.remedy
		var lacks []string
		if use.check == checkOfSubmit {
			status = StatusWarning
			if lacks = e.lacks(ctx, customer); len(lacks) > 0 {
				remedy = "grant " + strings.Join(lacks, " ") + ": " + remedy
			}
		}
		switch {
		case failed == nil && len(lacks) == 0:
			e.add(node, use.check, StatusOK, "the scripts load, and this user may run them", "")
			continue
		case failed == nil:
			e.add(node, use.check, status, "the scripts run now, but need more rights once a document is old", remedy)
		case Forbidden(failed):
			e.add(node, use.check, status, OneLine(e.Hidden(failed)), remedy)
		case outOfMemory(failed):
			e.full[node.name] = true
			e.add(node, use.check, StatusFailed, OneLine(e.Hidden(failed)), "see memory")
		default:
			e.add(node, use.check, StatusFailed, OneLine(e.Hidden(failed)), "see what Redis says")
		}
		// Remove what was written by whatever right there is; else it expires.
		_ = e.Store.Reset(ctx, customer)
		keys := e.Store.Keys(customer)
		_ = e.Client.Unlink(ctx, keys.Count).Err()
		_ = e.Client.Unlink(ctx, keys.Pending).Err()
	}
	return nil
}

// lacks returns which rights for Submit, Done and Peek a user lacks, by using each:
// in a script, not every version of Redis says which right is missing.
func (e *examination) lacks(ctx context.Context, customer string) (lacks []string) {
	refused := func(command ...any) bool { return redis.IsPermissionError(e.Client.Do(ctx, command...).Err()) }
	keys := e.Store.Keys(customer)
	key := keys.Pending
	if refused("get", keys.Count) {
		return []string{"+get"}
	}
	if refused("get", key) { // without a key, every command on it is refused
		return []string{"~" + e.prefix() + ":*}:pending"}
	}
	for _, command := range [][]any{
		{"time"}, {"zadd", key, 1, "document"}, {"zcard", key}, {"zcount", key, 0, 1}, {"zmscore", key, "document"},
		{"zrange", key, 0, 0}, {"zrem", key, "document"},
		{"pexpireat", key, 1},
	} {
		if refused(command...) {
			lacks = append(lacks, fmt.Sprint("+", command[0]))
		}
	}
	return lacks
}

// checkControl uses each right for reading and changing what operators set, on a key of
// its own beside theirs.
func (e *examination) checkControl(ctx context.Context) error {
	if e.Admin == nil {
		return nil
	}
	key := fmt.Sprintf("%s:{control}:%s", e.prefix(), e.own)
	defer func() { _ = e.Client.Unlink(ctx, key).Err() }()
	var refused error // a change, for want of memory
	lacks := func(commands ...[]any) (lacks []string, err error) {
		for _, command := range commands {
			err := e.Client.Do(ctx, command...).Err()
			switch {
			case redis.IsPermissionError(err) && command[0] == "script":
				lacks = append(lacks, "+script|load")
			case redis.IsPermissionError(err):
				lacks = append(lacks, fmt.Sprint("+", command[0]))
			case outOfMemory(err):
				refused = err
			case Unreachable(err) && !errors.Is(err, redis.Nil):
				return nil, err
			}
		}
		return lacks, nil
	}
	read, err := lacks([]any{"eval", "return 1", 0}, []any{"get", key}, []any{"hget", key, "f"}, []any{"hgetall", key}, []any{"lrange", key, 0, 0},
		[]any{"xrevrange", key, "+", "-", "COUNT", 1}, []any{"time"})
	if err != nil {
		return err
	}
	// Each key is removed before the next, which has another type.
	write, err := lacks([]any{"script", "load", "return 1"}, []any{"unlink", key}, []any{"set", key, "v", "PX", 1000}, []any{"unlink", key}, []any{"hset", key, "f", "v"}, []any{"hdel", key, "f"}, []any{"hlen", key},
		[]any{"unlink", key}, []any{"lpush", key, "v"}, []any{"ltrim", key, 0, 0}, []any{"llen", key}, []any{"unlink", key}, []any{"xadd", key, "MAXLEN", 1, "*", "f", "v"})
	if err != nil {
		return err
	}
	slices.Sort(write)
	write = slices.Compact(write)
	where := " on the keys ~" + e.prefix() + ":*"
	switch {
	case len(read) > 0:
		e.add(master{}, "control", StatusWarning, "this user may not read what operators set", "for a worker's user that is right; for an operator's grant "+strings.Join(append(read, write...), " ")+where)
	case len(write) > 0:
		e.add(master{}, "control", StatusWarning, "this user may read what operators set, and not change all of it", "for a worker's user that is right; for who changes something grant "+strings.Join(write, " ")+where)
	case refused != nil:
		e.add(master{}, "control", StatusFailed, "this user may read and change what operators set, but every change fails: "+OneLine(refused), "see memory")
	default:
		e.add(master{}, "control", StatusOK, "this user may read and change what operators set", "")
	}
	return nil
}

// customerOn returns a customer whose keys a node of a cluster holds.
func (e *examination) customerOn(ctx context.Context, node master) (string, error) {
	cluster, ok := e.Client.(*redis.ClusterClient)
	if !ok {
		return e.own, nil
	}
	for i := range 1_000_000 {
		customer := fmt.Sprintf("%s %d", e.own, i)
		master, err := cluster.MasterForKey(ctx, e.Store.Keys(customer).Count)
		if err != nil {
			return "", err
		}
		if master.Options().Addr == node.name {
			return customer, nil
		}
	}
	return e.own, nil // a master without slots
}
