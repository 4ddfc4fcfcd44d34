// Package priorityredis is a queue with levels in Redis, for a team without a broker: a
// stream for each level, or a list. Add calls Submit and adds a document to the queue of its
// level; Work has your function work on documents, calls Done, and removes them.
//
//	queue, err := priorityredis.Open(ctx, client, store, nil)
//	err = queue.Add(ctx, customer, document, body)
//	err = queue.Work(ctx, process)
//
// A document whose process fails is tried again after Backoff, and then given up: it goes to
// the stream {documents}-dead. Dead lists those, and Retry puts one back.
//
// A document is served at least once: after a crash perhaps twice. Write results under
// customer and document.
//
// Other languages share the queues with Redis's own commands: docs/queues/redis.md has which.
package priorityredis

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/queue"
	"github.com/redis/go-redis/v9"
)

// Options of a queue. The zero value works. Producers and workers have the same Name and
// Lists.
type Options struct {
	// Name begins the keys, in braces: in a cluster they are on one node. It has no brace
	// itself. Default: documents.
	Name string

	// Lists has lists in the place of streams, for teams that have lists already. Default:
	// streams.
	Lists bool

	// Cost is how much work a document is, in any unit that all share. Default: the length
	// of its body in bytes.
	Cost func(body []byte) float64

	// Backoff is how long a document waits after its first failure, after its second, …;
	// then it is given up. Empty and not nil: after the first. Default: 1 s, 10 s, 1 minute.
	Backoff []time.Duration

	// Limit is how long process may take for a document; then its context ends. Default: 10
	// minutes.
	Limit time.Duration

	// Lease is how long a worker that is not heard of keeps a document; then others get it.
	// Workers renew it while they work. At least 100 ms. Default: 30 s.
	Lease time.Duration

	// Poll is the longest pause before the next look at empty queues. Default: 250 ms.
	Poll time.Duration

	// Workers is how many documents Work works on at a time. Default: 1.
	Workers int

	// Weights are how often Work serves each level while all have documents, level 1's
	// first, one for each level of the store. Default: queue.LinearWeights.
	Weights []int64

	// Strict has Work serve a level only while those before it are empty, whatever Weights
	// say: the last level may starve. Default: by weight.
	Strict bool

	// Logger gets what goes wrong. Default: slog.Default().
	Logger *slog.Logger
}

// Queue is a stream or a list for each level, and a stream of documents that were given up.
// What is done with them is in the Lua files of streams and lists, which have the same keys
// and arguments; each is one step for Redis, and may be sent twice. A Queue is safe for
// concurrent use.
type Queue struct {
	client  redis.UniversalClient
	store   priority.Store
	options Options
	scripts map[string]*redis.Script

	queues []string // level 1's first
	later  []string // for each queue: documents by the time at which they are to be given out again
	dead   string
	added  string   // which Add calls have added their document
	hands  []string // lists: what each worker has in hand; streams know that by themselves

	unreached atomic.Int64 // when Redis was last not reached, in ms since 1970
}

const (
	system      = "redis" // in spans
	traceparent = "traceparent"
)

//go:embed streams/*.lua lists/*.lua
var lua embed.FS

// Open returns a queue of the client, after it has checked that the server can be one. It
// waits until the server answers, or ctx ends. The client is the caller's to close: a
// *redis.Client, or one of a cluster or of Sentinel.
//
// Give it a store with a fallback, such as a *fleet.Member: while Submit fails, nothing can
// be added. Nil opts are the defaults.
func Open(ctx context.Context, client redis.UniversalClient, store priority.Store, opts *Options) (*Queue, error) {
	if opts == nil {
		opts = &Options{}
	}
	for name, value := range map[string]any{"the client": client, "the store": store} {
		if typednil.Is(value) {
			return nil, fmt.Errorf("priorityredis: %w: %s is nil", priority.ErrInvalidOption, name)
		}
	}
	q := &Queue{client: client, store: store, options: *opts, scripts: make(map[string]*redis.Script)}
	o := &q.options
	if err := o.complete(int(store.Last())); err != nil {
		return nil, fmt.Errorf("priorityredis: %w", err)
	}

	name := "{" + o.Name + "}" // in a cluster all keys with the same braces are on one node
	q.queues = queue.Names(name, store.Last())
	for _, one := range q.queues {
		q.later = append(q.later, one+"-later")
	}
	q.dead, q.added = name+"-dead", name+"-added"
	kind := "stream"
	if o.Lists {
		kind, q.hands = "list", []string{name + "-hands"}
	}
	files, err := lua.ReadDir(kind + "s")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		source, err := lua.ReadFile(kind + "s/" + file.Name())
		if err != nil {
			return nil, err
		}
		q.scripts[strings.TrimSuffix(file.Name(), ".lua")] = redis.NewScript(string(source))
	}
	for wait := (pause{most: time.Second}); ; {
		err := q.check(ctx, kind)
		if err == nil {
			return q, nil
		}
		if !isAway(err) {
			return nil, fmt.Errorf("priorityredis: %w", err)
		}
		o.Logger.Warn("waiting for Redis", "error", err)
		if wait.sleep(ctx) != nil {
			return nil, fmt.Errorf("priorityredis: %w: %w", ctx.Err(), err)
		}
	}
}

var errUnfit = errors.New("the server cannot be the queue")

// isAway returns whether an error of check may be gone later: nobody answered, or a server
// that is on its way up.
func isAway(err error) bool {
	var answer redis.Error
	if errors.As(err, &answer) {
		return redis.HasErrorPrefix(err, "LOADING") || redis.HasErrorPrefix(err, "MASTERDOWN") || redis.HasErrorPrefix(err, "CLUSTERDOWN")
	}
	return !errors.Is(err, errUnfit)
}

// complete sets the defaults, and refuses what cannot work.
func (o *Options) complete(levels int) error {
	o.Name = cmp.Or(o.Name, "documents")
	o.Workers = cmp.Or(o.Workers, 1)
	o.Limit = cmp.Or(o.Limit, 10*time.Minute)
	if o.Backoff == nil {
		o.Backoff = []time.Duration{time.Second, 10 * time.Second, time.Minute}
	}
	if o.Cost == nil {
		o.Cost = func(body []byte) float64 { return float64(len(body)) }
	}
	o.Lease = cmp.Or(o.Lease, 30*time.Second)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	if o.Weights == nil {
		o.Weights = queue.LinearWeights(priority.Level(levels))
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())

	var wrong []error
	refuse := func(is bool, format string, values ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf("%w: "+format, append([]any{priority.ErrInvalidOption}, values...)...))
		}
	}
	refuse(strings.ContainsAny(o.Name, "{}"), "Name %q has a brace", o.Name)
	refuse(o.Workers < 0, "Workers %d is below 0", o.Workers)
	refuse(o.Limit < 0, "Limit %v is below 0", o.Limit)
	refuse(o.Poll < 0, "Poll %v is below 0", o.Poll)
	refuse(o.Lease < 100*time.Millisecond, "Lease %v is below 100 ms", o.Lease)
	refuse(slices.ContainsFunc(o.Backoff, func(wait time.Duration) bool { return wait < 0 }), "Backoff %v has a wait below 0", o.Backoff)
	refuse(len(o.Weights) != levels || slices.Min(o.Weights) < 1, "Weights %d are not %d weights above 0", o.Weights, levels)
	return errors.Join(wrong...)
}

// check refuses a server that cannot be the queue, and warns of settings with which
// documents will be lost.
func (q *Queue) check(ctx context.Context, kind string) error {
	info, err := q.client.Info(ctx).Result()
	if err != nil {
		return err
	}
	of := func(name string) string {
		_, value, _ := strings.Cut(info, "\n"+name+":")
		value, _, _ = strings.Cut(value, "\r\n")
		return value
	}
	var major, minor int
	if _, err := fmt.Sscanf(of("redis_version"), "%d.%d", &major, &minor); err != nil || major*100+minor < 602 {
		return fmt.Errorf("%w: version %q is older than 6.2", errUnfit, of("redis_version"))
	}
	if policy := of("maxmemory_policy"); policy != "noeviction" {
		q.options.Logger.Warn("a full Redis will delete documents: set maxmemory-policy noeviction", "maxmemory-policy", policy)
	}
	if of("aof_enabled") != "1" {
		q.options.Logger.Warn("a crash of Redis will lose documents: set appendonly yes")
	}
	for i, one := range append([]string{q.dead}, q.queues...) {
		want := kind
		if i == 0 {
			want = "stream"
		}
		found, err := q.client.Type(ctx, one).Result()
		if err != nil {
			return err
		}
		if found != want && found != "none" {
			return fmt.Errorf("%w: %s is a %s, not a %s", errUnfit, one, found, want)
		}
	}
	dead, err := q.client.XRangeN(ctx, q.dead, "-", "+", 1).Result()
	if err != nil {
		return err
	}
	if len(dead) > 0 && (field(dead[0], "element") != "") != q.options.Lists {
		return fmt.Errorf("%w: %s has documents of lists, or of streams, and not of %ss", errUnfit, q.dead, kind)
	}
	for _, one := range q.later { // lists may be empty, and these not
		first, err := q.client.ZRange(ctx, one, 0, 0).Result()
		if err != nil {
			return err
		}
		if kind == "stream" && len(first) > 0 && !ofStream.MatchString(first[0]) {
			return fmt.Errorf("%w: %s has documents of lists", errUnfit, one)
		}
	}
	return nil
}

// ofStream is what waits after a failure where there are streams: an entry's id, and
// its tries.
var ofStream = regexp.MustCompile(`^[0-9]+-[0-9]+ [0-9]+$`)

// Add gives a customer's document its level and adds it to the level's queue, once. It goes
// on until Redis has confirmed that, or ctx ends; then it is not known whether the document
// was added. A document that is added again, also after an error, is served twice.
//
// The document's id, any 1 to 512 bytes, is your own and always the same for a document: do
// not let customers choose it. If it is "", Add makes one. With Lists, customer, id and body
// are UTF-8.
func (q *Queue) Add(ctx context.Context, customer, document string, body []byte) (err error) {
	document = cmp.Or(document, rand.Text())
	if q.options.Lists && !(utf8.ValidString(customer) && utf8.ValidString(document) && utf8.Valid(body)) {
		return fmt.Errorf("priorityredis: %q of %q is not UTF-8, as the JSON of a list has to be", document, customer)
	}
	ctx, headers, end := priorityotel.StartSend(ctx, system, q.options.Name)
	defer func() { end(err) }()
	level, err := q.submit(ctx, customer, document, body)
	if err != nil {
		return fmt.Errorf("priorityredis: add %q of %q: %w", document, customer, err)
	}
	token := rand.Text()
	for wait := (pause{most: time.Second}); ; {
		err := q.run(ctx, "add", []string{level, q.added}, token, customer, document, body, headers[traceparent]).Err()
		if err == nil {
			return nil
		}
		q.options.Logger.Warn("a document is not added yet", "customer", customer, "document", document, "error", err)
		if wait.sleep(ctx) != nil {
			return fmt.Errorf("priorityredis: %q of %q may not have been added: %w", document, customer, errors.Join(ctx.Err(), err))
		}
	}
}

// submit returns the key of the queue that a document gets into.
func (q *Queue) submit(ctx context.Context, customer, document string, body []byte) (key string, err error) {
	decision, err := q.store.Submit(ctx, customer, document, q.options.Cost(body))
	if err != nil {
		return "", err
	}
	return q.queues[queue.Class(decision.Level, q.store.Last(), q.store.Last())-1], nil
}

func (q *Queue) run(ctx context.Context, script string, keys []string, arguments ...any) *redis.Cmd {
	reply := q.scripts[script].Run(ctx, q.client, keys, arguments...)
	if err := reply.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "OOM") {
		q.unreached.Store(time.Now().UnixMilli())
	}
	return reply
}

// pause is one between tries: 10 ms, and each time twice as long, up to the most.
type pause struct{ last, most time.Duration }

func (p *pause) sleep(ctx context.Context) error {
	p.last = min(max(2*p.last, 10*time.Millisecond), p.most)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(p.last):
		return nil
	}
}
