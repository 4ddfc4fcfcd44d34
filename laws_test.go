package priority_test

import (
	"context"
	"encoding"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/coalesce"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/lua"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/prioritytest"
)

// lawfulPolicies are options with policies that differ in everything.
var lawfulPolicies = priority.RedisOptions{
	Policy: priority.Policy{ResetInterval: 20 * time.Minute},
	Tiers: map[string]priority.Policy{
		"short":  {Thresholds: []int64{-1, -3, -9}, ResetInterval: time.Minute},
		"steady": {ResetMode: priority.SinceLastReset, ResetInterval: 10 * time.Minute},
	},
	TierOf: func(customer string) string { tier, _, _ := strings.Cut(customer, " "); return tier },
	Lease:  3 * time.Minute,
}

var lawfulCustomers = []string{"acme", "short {b}%", "steady \x00"}

func TestARedisStoreKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		redis := newBubbleRedis(t)
		return prioritytest.Subject{
			Store: redis.open(&lawfulPolicies), Other: openStore(t, redis.client(nil), &lawfulPolicies),
			Faulty: []prioritytest.Faulty{redis.faults}, Goroutines: redisGoroutines, Customers: lawfulCustomers,
		}
	})
}

func TestARedisStoreOnAServerKeepsTheLaws(t *testing.T) {
	server := redistest.Start(t)
	prioritytest.TestStoreInRealTime(t, func(t *testing.T) prioritytest.Subject {
		client := server.Client()
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		opts := lawfulPolicies
		opts.Timeout = time.Minute // which nothing takes
		store := openStore(t, client, &opts)
		hand := &hand{t: t, client: client, store: store, moved: make(map[string]moved), leases: make(map[string]time.Duration)}
		return prioritytest.Subject{
			Store: store, Other: openStore(t, server.Client(), &opts),
			Wait: hand.wait, Slack: handSlip + 10*time.Second, Customers: lawfulCustomers,
		}
	})
}

// RedisStore, coalesce, fallback and observe, one around the other.
func TestTheWholeStackKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		redis := newBubbleRedis(t)
		inner := redis.open(&lawfulPolicies)
		failing := prioritytest.NewFailingStore(observe.New(inner, func(context.Context, observe.Call) {}))
		coalesced := must(coalesce.New(failing, nil))(t)
		fallen := must(fallback.New(coalesced, nil, nil))(t)
		return prioritytest.Subject{
			Store: observe.New(fallen, new(prioritytest.Recorder).Observe), Other: openStore(t, redis.client(nil), &lawfulPolicies),
			Faulty: []prioritytest.Faulty{failing, redis.faults}, Goroutines: redisGoroutines, Customers: lawfulCustomers,
			Lag: 2 * time.Second, Recovery: 1250 * time.Millisecond,
			Close: func(ctx context.Context) error { return errors.Join(fallen.Close(ctx), coalesced.Close(ctx)) },
		}
	})
}

// redisGoroutines is as many as a RedisStore lets be under way, and those of the
// connections with their server.
const redisGoroutines = 1024 + 32 + 100

// bubbleRedis is a miniredis in a bubble of testing/synctest.
type bubbleRedis struct {
	t      *testing.T
	server *miniredis.Miniredis
	began  time.Time
	faults *commandFaults
}

func newBubbleRedis(t *testing.T) *bubbleRedis {
	r := &bubbleRedis{t: t, server: miniredis.NewMiniRedis(), began: time.Now(), faults: new(commandFaults)}
	r.tick()
	r.server.ClockTTL(true)
	t.Cleanup(r.server.Close)
	return r
}

// open returns a store that meets faults. The server knows its scripts: a customer who
// hangs in a pipeline would keep others from sending theirs.
func (r *bubbleRedis) open(opts *priority.RedisOptions) *priority.RedisStore {
	store := openStore(r.t, r.client(r.faults), opts)
	for _, customer := range lawfulCustomers {
		for name, call := range everyCall(r.t, store, customer, "d") {
			if err := call(); err != nil && !errors.Is(err, priority.ErrWasReset) {
				r.t.Fatalf("%s of %q: %v", name, customer, err)
			}
		}
	}
	r.server.FlushAll()
	return store
}

// tick moves the server's clock. A key with a TTL is still there exactly that long
// later in Redis, but not in miniredis. So its clock loses a nanosecond a second: of
// so little no test sees anything in whole milliseconds, as the clock starts within
// one.
func (r *bubbleRedis) tick() {
	passed := time.Since(r.began)
	r.server.SetTime(r.began.Add(900*time.Microsecond + passed - passed/time.Second))
}

// client returns a client whose commands meet faults, unless they are nil.
func (r *bubbleRedis) client(faults *commandFaults) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return buffered(r.server.Dial()) },
		Addr:     "127.0.0.1:1", // go-redis would look up a name, which a bubble cannot
		PoolSize: 1024,          // go-redis's waiting for a connection does not work in many bubbles
	})
	client.AddHook(bubbleHook{r.tick, faults})
	r.t.Cleanup(func() { _ = client.Close() })
	return client
}

// buffered lets a server write all its replies before any of them is read, as the
// replies to a pipeline are: it does not block as a net.Pipe does.
func buffered(server net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	replies := make(chan []byte, 1<<16)
	go func() {
		_, _ = io.Copy(server, near)
		_ = server.Close()
	}()
	go func() {
		defer close(replies)
		for {
			reply := make([]byte, 4096)
			n, err := server.Read(reply)
			if err != nil {
				return
			}
			replies <- reply[:n]
		}
	}()
	go func() {
		for reply := range replies {
			_, _ = near.Write(reply)
		}
		_ = near.Close()
	}()
	return client, nil
}

// bubbleHook makes commands meet faults.
type bubbleHook struct {
	tick   func()
	faults *commandFaults
}

func (h bubbleHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h bubbleHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.faults.process(ctx, []redis.Cmder{cmd}, func(ctx context.Context, cmds []redis.Cmder) error {
			h.tick()
			return next(ctx, cmds[0])
		})
	}
}

func (h bubbleHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.faults.process(ctx, cmds, func(ctx context.Context, cmds []redis.Cmder) error {
			h.tick()
			return next(ctx, cmds)
		})
	}
}

// commandFaults makes a client's commands fail as their connection or Redis would
// let them. It is a prioritytest.Faulty.
type commandFaults struct {
	mu     sync.Mutex
	told   []*prioritytest.Fault
	healed chan struct{}
}

func (f *commandFaults) Fail(fault prioritytest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(fault.Operations) == 0 { // here are no operations, only commands
		f.told = append(f.told, &fault)
	}
	if f.healed == nil {
		f.healed = make(chan struct{})
	}
}

func (f *commandFaults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.healed != nil {
		close(f.healed)
	}
	f.told, f.healed = nil, nil
}

// take returns the first fault that one of the commands meets.
func (f *commandFaults) take(cmds []redis.Cmder) (met *prioritytest.Fault, healed chan struct{}) {
	if f == nil {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, fault := range f.told {
		if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return concerns(fault, cmd) }) {
			continue
		}
		if fault.Calls--; fault.Calls == 0 {
			f.told = slices.Delete(f.told, i, i+1)
		}
		return fault, f.healed
	}
	return nil, nil
}

var resetDigest = redis.NewScript(lua.Reset).Hash()

// concerns reports whether a command is of the fault's customer.
func concerns(fault *prioritytest.Fault, cmd redis.Cmder) bool {
	args := cmd.Args()
	if !strings.HasPrefix(cmd.Name(), "eval") { // go-redis greets the server
		return false
	}
	script := args[1].(interface{ String() string })
	if fault.Class == priority.ErrCorruptCount && (script.String() == resetDigest || script.String() == lua.Reset) {
		return false
	}
	return fault.Customer == "" || customerOf(args[3].(string)) == fault.Customer
}

// customerOf returns the customer of a key.
func customerOf(key string) string {
	_, customer, _ := strings.Cut(key, "{")
	customer, _, _ = strings.Cut(customer, "}")
	return strings.NewReplacer("%7D", "}", "%25", "%").Replace(customer)
}

// process sends commands, with the fault that they meet.
func (f *commandFaults) process(ctx context.Context, cmds []redis.Cmder, send func(context.Context, []redis.Cmder) error) error {
	fault, healed := f.take(cmds)
	if fault == nil {
		return send(ctx, cmds)
	}
	var now, met []redis.Cmder
	for _, cmd := range cmds {
		if concerns(fault, cmd) {
			met = append(met, cmd)
		}
		if fault.Counted || !concerns(fault, cmd) {
			now = append(now, cmd)
		}
	}
	if len(now) > 0 {
		_ = send(ctx, now) // the commands have their errors
	}
	var failure error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	switch fault.Class {
	case priority.ErrOutcomeUnknown:
		write(met)
		failure = io.EOF
	case priority.ErrCorruptCount:
		failure = corruptReply{}
	}
	over := make(chan struct{}) // Go 1.26 crashes in a select on a timer that is over, in a bubble, with -race
	defer time.AfterFunc(fault.Delay, func() { close(over) }).Stop()
	select {
	case <-over:
	case <-healed:
	case <-ctx.Done():
		failure = ctx.Err()
	}
	if fault.Slow && ctx.Err() == nil {
		return send(ctx, met)
	}
	for _, cmd := range met {
		if reply := redis.Error(nil); !errors.As(cmd.Err(), &reply) { // such as NOSCRIPT, which arrived
			cmd.SetErr(failure)
		}
	}
	return failure
}

// write does with commands what a connection does that then loses them.
func write(cmds []redis.Cmder) {
	for _, cmd := range cmds {
		for _, arg := range cmd.Args() {
			if arg, ok := arg.(encoding.BinaryMarshaler); ok {
				_, _ = arg.MarshalBinary()
			}
		}
	}
}

type corruptReply struct{}

func (corruptReply) Error() string { return "CORRUPTCOUNT the key holds something other than a count" }
func (corruptReply) RedisError()   {}

// hand lets time pass for a real server, the clock of which cannot be moved: it
// moves the ends of all keys and leases. What is over it removes. What is soon over
// it ends later, so that it stays until the test comes to it, and what is not it ends
// sooner, so that whatever is written since can be told from it.
type hand struct {
	t      *testing.T
	client *redis.Client
	store  *priority.RedisStore
	moved  map[string]moved         // counts, by key
	leases map[string]time.Duration // what is left of them, by key, document and score
}

type moved struct {
	left, ttl time.Duration // what is left of it, and what the server was told
	at        time.Time
}

// handSlip is by how much ends are moved too far. It is more than a test takes.
const handSlip = 15 * time.Second

// slip returns what the server is told of what is left of some time.
func slip(left, of time.Duration) time.Duration {
	if left < of/2 {
		return left + handSlip
	}
	return left - handSlip
}

func (h *hand) wait(d time.Duration) {
	h.t.Helper()
	keys, err := h.client.Keys(h.t.Context(), "*").Result()
	for _, key := range keys {
		if strings.HasSuffix(key, ":count") {
			err = errors.Join(err, h.moveCount(key, d))
		} else if strings.HasSuffix(key, ":pending") {
			err = errors.Join(err, h.moveLeases(key, d))
		}
	}
	if err != nil {
		h.t.Fatalf("let %v pass: %v", d, err)
	}
}

func (h *hand) moveCount(key string, d time.Duration) error {
	ctx := h.t.Context()
	ttl, err := h.client.PTTL(ctx, key).Result()
	interval := h.store.PolicyOf(customerOf(key)).ResetInterval
	left, last := interval, h.moved[key]
	if ttl <= last.ttl && ttl > last.ttl-time.Since(last.at)-handSlip/2 {
		left = last.left // it was not written since
	}
	delete(h.moved, key)
	if left -= d; left < 0 {
		return errors.Join(err, h.client.Del(ctx, key).Err())
	}
	h.moved[key] = moved{left, slip(left, interval), time.Now()}
	return errors.Join(err, h.client.PExpire(ctx, key, slip(left, interval)).Err())
}

func (h *hand) moveLeases(key string, d time.Duration) error {
	ctx := h.t.Context()
	documents, err := h.client.ZRangeWithScores(ctx, key, 0, -1).Result()
	name := func(z redis.Z) string { return key + z.Member.(string) + time.UnixMilli(int64(z.Score)).String() }
	for _, document := range documents {
		left, ok := h.leases[name(document)]
		if !ok { // it was written since
			left = h.store.Lease()
		}
		if left -= d; left < 0 {
			err = errors.Join(err, h.client.ZRem(ctx, key, document.Member).Err())
			continue
		}
		score := float64(time.Now().Add(slip(left, h.store.Lease()) - h.store.Lease()).UnixMilli())
		document.Score = math.Copysign(score, document.Score)
		h.leases[name(document)] = left
		err = errors.Join(err, h.client.ZAdd(ctx, key, document).Err())
	}
	if len(documents) == 0 {
		return err
	}
	return errors.Join(err, h.client.PExpire(ctx, key, h.store.Lease()+handSlip).Err())
}
