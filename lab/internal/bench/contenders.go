package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/lua"
)

// contender is a way to decide something about a customer in Redis: a row of the
// peers.
type contender struct {
	name string

	// decide is the decision as a program makes it.
	decide decide

	// counted is the same decision by a client that counts what it sends. It
	// batches the commands of concurrent callers, whoever is measured, so that
	// the server has the same kind of work of all.
	counted decide
	sent    *sentCommands
}

// The contenders that others are compared with.
const (
	floorName      = "INCR+PEXPIRE script"
	nextName       = "priority"
	overriddenName = "priority, overrides read"
	batchedName    = "priority, batched"
	timedName      = "priority, batched and timed"
	rateName       = "redis_rate"
	rueidisName    = "rueidis, our script"
	plainIncrName  = "INCR, then PEXPIRE"
)

// openContenders makes all contenders on one server. The clients are closed by
// close.
func openContenders(ctx context.Context, addr string) (contenders []*contender, close func(), err error) {
	var closers []func()
	close = func() {
		for _, close := range closers {
			close()
		}
	}
	defer func() {
		if err != nil {
			close()
		}
	}()
	newClient := func() *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: addr})
		closers = append(closers, func() { _ = client.Close() })
		return client
	}
	for _, entry := range []struct {
		name    string
		batches bool
		make    func(context.Context, redis.UniversalClient) (decide, error)
	}{
		{floorName, false, floorScript},
		{plainIncrName, false, plainIncr},
		{nextName, false, priorityNext},
		{overriddenName, false, priorityOverridden},
		{batchedName, true, priorityUnbounded},
		{timedName, true, priorityNext},
		{rateName, false, redisRate},
	} {
		c := &contender{name: entry.name, sent: new(sentCommands)}
		client, counting := newClient(), newClient()
		counting.AddHook(c.sent)
		batching, err := counting.AutoPipeline()
		if err != nil {
			return nil, nil, err
		}
		if c.counted, err = entry.make(ctx, batching); err != nil {
			return nil, nil, err
		}
		var own redis.UniversalClient = client
		if entry.batches {
			if own, err = client.AsyncAutoPipelineWithOptions(batches); err != nil {
				return nil, nil, err
			}
		}
		if c.decide, err = entry.make(ctx, own); err != nil {
			return nil, nil, err
		}
		contenders = append(contenders, c)
	}
	raw, closeRaw, err := rawRueidis(addr)
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, closeRaw)
	return append(contenders, raw), close, nil
}

// batches has a batch be gathered while another is under way. Decisions need no
// order.
var batches = &redis.AutoPipelineOptions{MaxConcurrentBatches: 2, Unordered: true}

// interval is the reset interval of the default policy. redis_rate's limit is
// such that it always allows, and that what it keeps lives for minutes, as ours
// does.
const interval = 1500 * time.Second

//go:embed floor.lua
var floorLua string

// floorScript is the least that a script with an expiry can do.
func floorScript(_ context.Context, client redis.UniversalClient) (decide, error) {
	return scriptDecide(client, floorLua), nil
}

func scriptDecide(client redis.Scripter, text string) decide {
	script := redis.NewScript(text)
	return func(ctx context.Context, customer string) error {
		_, err := script.Run(ctx, client, []string{"script:{" + customer + "}:count"}).Int64Slice()
		return err
	}
}

// plainIncr is what is written by hand most often: no script, and a customer whose
// PEXPIRE is lost is never forgotten.
func plainIncr(_ context.Context, client redis.UniversalClient) (decide, error) {
	return func(ctx context.Context, customer string) error {
		key := "incr:{" + customer + "}:count"
		count, err := client.Incr(ctx, key).Result()
		if err == nil && count == 1 {
			err = client.PExpire(ctx, key, interval).Err()
		}
		return err
	}, nil
}

func priorityNext(_ context.Context, client redis.UniversalClient) (decide, error) {
	return storeDecide(client, &priority.RedisOptions{})
}

// priorityOverridden reads overrides, as a member of the fleet does.
func priorityOverridden(_ context.Context, client redis.UniversalClient) (decide, error) {
	return storeDecide(client, &priority.RedisOptions{Overrides: true})
}

// priorityUnbounded has no timeout but the client's, as the peers.
func priorityUnbounded(_ context.Context, client redis.UniversalClient) (decide, error) {
	return storeDecide(client, &priority.RedisOptions{Timeout: -1})
}

// patience is the timeout of stores that are measured: a busy machine makes a
// figure worse and ends nothing.
const patience = time.Minute

// storeDecide is Next of a store with some options.
func storeDecide(client priority.RedisClient, opts *priority.RedisOptions) (decide, error) {
	if opts.Timeout == 0 {
		opts.Timeout = patience
	}
	store, err := priority.NewRedisStore(client, opts)
	if err != nil {
		return nil, err
	}
	return next(store), nil
}

var errRefused = errors.New("a limit refused, which costs less than what is measured")

func redisRate(_ context.Context, client redis.UniversalClient) (decide, error) {
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: 1_000_000 * time.Minute}
	return func(ctx context.Context, customer string) error {
		result, err := limiter.Allow(ctx, customer, limit)
		if err == nil && result.Allowed != 1 {
			err = errRefused
		}
		return err
	}, nil
}

// rawRueidis runs the module's script, and nothing else of the module, by another
// client, which batches by itself.
func rawRueidis(addr string) (*contender, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, nil, fmt.Errorf("rueidis: %w", err)
	}
	script := rueidis.NewLuaScript(lua.Next)
	c := &contender{name: rueidisName, sent: new(sentCommands)}
	c.decide = func(ctx context.Context, customer string) error {
		_, err := script.Exec(ctx, client, []string{"priority:{" + customer + "}:count"}, nil).AsIntSlice()
		return err
	}
	c.counted = func(ctx context.Context, customer string) error {
		c.sent.add("evalsha")
		return c.decide(ctx, customer)
	}
	return c, client.Close, nil
}
