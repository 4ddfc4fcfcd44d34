package main

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
	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/queue"
	"github.com/redis/go-redis/v9"
)

// Options of a queue. A zero field takes its default. Producers and consumers have
// the same Name and Lists.
type Options struct {
	Name    string          // of the queue: its keys begin with it, in braces (documents)
	Lists   bool            // lists in the place of streams
	Workers int             // documents at a time in this process (1)
	Limit   time.Duration   // how long process may take for a document; then its context ends (10 minutes)
	Backoff []time.Duration // how long a document waits after its first failure, after its second, …; then it is given up (1 s, 10 s, 1 minute)
	Lease   time.Duration   // after which others get the document of a worker that is not heard of (30 s)
	Poll    time.Duration   // the longest pause before the next look at an empty queue (250 ms)
	Weights []int64         // how often a level is served while all have documents, level 1's first (queue.LinearWeights)
	Strict  bool            // a level is served only while those before it are empty, whatever Weights say
	Logger  *slog.Logger    // (slog.Default)
}

// Documents is a queue in Redis: a stream, or a list, for each level. What is to be
// done with them is in the Lua files of streams and lists, which have the same keys
// and arguments; each is one step for Redis, and may be sent twice.
type Documents struct {
	client  redis.UniversalClient
	store   priority.Store
	options Options
	scripts map[string]*redis.Script

	queues []string // that of level 1 first
	later  []string // for each queue: documents by the time at which they are to be given out again
	dead   string
	added  string   // which Produce calls have added their document
	hands  []string // lists: what each worker has in hand; streams know that by themselves

	unreached *atomic.Int64 // when Redis was last not reached, in ms since 1970
}

const (
	system      = "redis" // in spans
	traceparent = "traceparent"
)

//go:embed streams/*.lua lists/*.lua
var lua embed.FS

// Open checks that the server can be reached and can be a queue. The client is the
// caller's to close: a *redis.Client, or one of a cluster or of Sentinel.
func Open(ctx context.Context, client redis.UniversalClient, store priority.Store, options *Options) (*Documents, error) {
	if options == nil {
		return nil, fmt.Errorf("documents: %w: Options are nil", priority.ErrInvalidOption)
	}
	d := &Documents{client: client, store: store, options: *options, scripts: make(map[string]*redis.Script), unreached: new(atomic.Int64)}
	o := &d.options
	if err := o.complete(int(store.Last())); err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}

	name := "{" + o.Name + "}" // in a cluster all keys with the same braces are on one node
	d.queues = queue.Names(name, store.Last())
	for _, one := range d.queues {
		d.later = append(d.later, one+"-later")
	}
	d.dead, d.added = name+"-dead", name+"-added"
	kind := "stream"
	if o.Lists {
		kind, d.hands = "list", []string{name + "-hands"}
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
		d.scripts[strings.TrimSuffix(file.Name(), ".lua")] = redis.NewScript(string(source))
	}
	if err := d.check(ctx, kind); err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	return d, nil
}

// complete sets the defaults, and refuses what cannot work.
func (o *Options) complete(levels int) error {
	o.Name = cmp.Or(o.Name, "documents")
	o.Workers = cmp.Or(o.Workers, 1)
	o.Limit = cmp.Or(o.Limit, 10*time.Minute)
	if o.Backoff == nil {
		o.Backoff = []time.Duration{time.Second, 10 * time.Second, time.Minute}
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
func (d *Documents) check(ctx context.Context, kind string) error {
	info, err := d.client.Info(ctx).Result()
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
		return fmt.Errorf("version %q of Redis is older than 6.2", of("redis_version"))
	}
	if policy := of("maxmemory_policy"); policy != "noeviction" {
		d.options.Logger.Warn("a full Redis will delete documents: set maxmemory-policy noeviction", "maxmemory-policy", policy)
	}
	if of("aof_enabled") != "1" {
		d.options.Logger.Warn("a crash of Redis will lose documents: set appendonly yes")
	}
	for _, one := range append([]string{d.dead}, d.queues...) {
		if found, err := d.client.Type(ctx, one).Result(); err != nil || found != kind && found != "none" {
			return errors.Join(err, fmt.Errorf("%s is a %s, not a %s", one, found, kind))
		}
	}
	for _, one := range d.later { // lists may be empty, and these not
		first, err := d.client.ZRange(ctx, one, 0, 0).Result()
		if err != nil || kind == "stream" && len(first) > 0 && !ofStream.MatchString(first[0]) {
			return errors.Join(err, fmt.Errorf("%s has documents of lists", one))
		}
	}
	return nil
}

// ofStream is what waits after a failure where there are streams: an entry's id, and
// its tries.
var ofStream = regexp.MustCompile(`^[0-9]+-[0-9]+ [0-9]+$`)

// Produce gives a customer's document its level and adds it to the level's queue,
// once. It goes on until Redis has confirmed that, or the context ends; then it is
// not known whether the document was added.
func (d *Documents) Produce(ctx context.Context, customer, document string, body []byte) (err error) {
	if d.options.Lists && !(utf8.ValidString(customer) && utf8.ValidString(document) && utf8.Valid(body)) {
		return fmt.Errorf("documents: %q of %q is not UTF-8, as the JSON of a list has to be", document, customer)
	}
	ctx, headers, end := priorityotel.StartSend(ctx, system, d.options.Name)
	defer func() { end(err) }()
	decision, err := d.store.Submit(ctx, customer, document, float64(len(body)))
	if err != nil {
		return fmt.Errorf("documents: %s of %s: %w", document, customer, err)
	}
	level := queue.Class(decision.Level, d.store.Last(), d.store.Last())
	token := rand.Text()
	for wait := (pause{most: time.Second}); ; {
		err := d.run(ctx, "add", []string{d.queues[level-1], d.added}, token, customer, document, body, headers[traceparent]).Err()
		if err == nil {
			return nil
		}
		d.options.Logger.Warn("a document is not added yet", "customer", customer, "document", document, "error", err)
		if wait.sleep(ctx) != nil {
			return fmt.Errorf("documents: %s of %s may not have been added: %w", document, customer, errors.Join(ctx.Err(), err))
		}
	}
}

// Dead returns the documents that were given up, the oldest first. It reads them in
// pages: no other call to Redis waits for all of them.
func (d *Documents) Dead(ctx context.Context) ([]string, error) {
	var documents []string
	for next := ""; ; {
		page, err := d.run(ctx, "dead", []string{d.dead}, next).StringSlice()
		if err != nil {
			return nil, err
		}
		documents = append(documents, page[1:]...)
		if next = page[0]; next == "" {
			return documents, nil
		}
	}
}

// Remove deletes the queue, what waits in it and what was given up.
func (d *Documents) Remove(ctx context.Context) error {
	keys := append([]string{d.dead, d.added}, d.hands...)
	keys = append(append(keys, d.queues...), d.later...)
	return d.client.Unlink(ctx, keys...).Err()
}

func (d *Documents) run(ctx context.Context, script string, keys []string, arguments ...any) *redis.Cmd {
	reply := d.scripts[script].Run(ctx, d.client, keys, arguments...)
	if err := reply.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "OOM") {
		d.unreached.Store(time.Now().UnixMilli())
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
