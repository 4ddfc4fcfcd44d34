package insight

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The rights that a user of Redis needs, as ACL SETUSER takes them: who calls
// Submit, Done or Peek needs both.
const (
	NextRights   = "+evalsha +eval +exists +get +set +decr +decrby +incrby +pexpire +pttl +unlink"
	SubmitRights = "+zadd +zcard +zcount +zmscore +zrange +zrangebyscore +zrem +zscore +time"
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
			func() error { return e.Store.Done(ctx, customer, "document", 0) },
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
		default:
			e.add(node, use.check, StatusFailed, OneLine(e.Hidden(failed)), "see what Redis says")
		}
		// What was written is removed by whatever right there is; else it expires.
		_ = e.Store.Reset(ctx, customer)
		for _, key := range e.keys(customer) {
			_ = e.Client.Unlink(ctx, key).Err()
		}
	}
	return nil
}

// lacks returns which rights to call Submit, Done and Peek a user has not, by using
// each: in a script, not every version of Redis says which one it refuses.
func (e *examination) lacks(ctx context.Context, customer string) (lacks []string) {
	refused := func(command ...any) bool { return redis.IsPermissionError(e.Client.Do(ctx, command...).Err()) }
	if refused("get", e.Store.Key(customer)) {
		return []string{"+get"}
	}
	for _, key := range e.keys(customer)[1:] {
		if refused("get", key) {
			_, end, _ := strings.Cut(key, "}")
			lacks = append(lacks, "~"+e.prefix()+":*}"+end)
		}
	}
	if len(lacks) > 0 {
		return lacks // without a key, every command on it is refused
	}
	key := e.Store.PendingKey(customer)
	for _, command := range [][]any{
		{"time"}, {"zadd", key, 1, "document"}, {"zcard", key}, {"zcount", key, 0, 1}, {"zmscore", key, "document"},
		{"zrange", key, 0, 0}, {"zrangebyscore", key, 0, 1}, {"zrem", key, "document"}, {"zscore", key, "document"},
	} {
		if refused(command...) {
			lacks = append(lacks, fmt.Sprint("+", command[0]))
		}
	}
	return lacks
}

// customerOn returns a customer whose keys a node of a cluster holds.
func (e *examination) customerOn(ctx context.Context, node master) (string, error) {
	cluster, ok := e.Client.(*redis.ClusterClient)
	if !ok {
		return e.own, nil
	}
	for i := range 1_000_000 {
		customer := fmt.Sprintf("%s %d", e.own, i)
		master, err := cluster.MasterForKey(ctx, e.Store.Key(customer))
		if err != nil {
			return "", err
		}
		if master.Options().Addr == node.name {
			return customer, nil
		}
	}
	return e.own, nil // a master without slots
}
