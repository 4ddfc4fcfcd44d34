package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
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
}

//go:embed streams/*.lua lists/*.lua
var lua embed.FS

// Open checks that the server can be reached and can be a queue. The client is the
// caller's to close: a *redis.Client, or one of a cluster or of Sentinel.
func Open(ctx context.Context, client redis.UniversalClient, store priority.Store, options *Options) (*Documents, error) {
	d := &Documents{client: client, store: store, options: *options, scripts: make(map[string]*redis.Script)}
	o := &d.options
	o.Name = cmp.Or(o.Name, "documents")
	o.Workers = cmp.Or(o.Workers, 1)
	o.Limit = cmp.Or(o.Limit, 10*time.Minute)
	if o.Backoff == nil {
		o.Backoff = []time.Duration{time.Second, 10 * time.Second, time.Minute}
	}
	o.Lease = cmp.Or(o.Lease, 30*time.Second)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	if o.Weights == nil {
		o.Weights = queue.LinearWeights(store.Last())
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	switch {
	case strings.ContainsAny(o.Name, "{}"):
		return nil, fmt.Errorf("documents: the name %q has a brace", o.Name)
	case o.Workers < 0 || o.Limit < 0 || o.Poll < 0 || o.Lease < 100*time.Millisecond:
		return nil, errors.New("documents: Workers, Limit or Poll is below 0, or Lease below 100 ms")
	case len(o.Weights) != int(store.Last()):
		return nil, fmt.Errorf("documents: %d weights for %d levels", len(o.Weights), store.Last())
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
	for _, one := range d.queues {
		if found, err := d.client.Type(ctx, one).Result(); err != nil || found != kind && found != "none" {
			return errors.Join(err, fmt.Errorf("%s is a %s, not a %s", one, found, kind))
		}
	}
	return nil
}

// Produce gives a customer's document its level and adds it to the level's queue,
// once. It goes on until Redis has confirmed that, or the context ends; then it is
// not known whether the document was added.
func (d *Documents) Produce(ctx context.Context, customer, document string, body []byte) error {
	if d.options.Lists && !(utf8.ValidString(customer) && utf8.ValidString(document) && utf8.Valid(body)) {
		return fmt.Errorf("documents: %q of %q is not UTF-8, as the JSON of a list has to be", document, customer)
	}
	decision, err := d.store.Submit(ctx, customer, document)
	if err != nil {
		return fmt.Errorf("documents: %s of %s: %w", document, customer, err)
	}
	level := queue.Class(decision.Level, d.store.Last(), d.store.Last())
	token := rand.Text()
	for wait := (pause{most: time.Second}); ; {
		err := d.run(ctx, "add", []string{d.queues[level-1], d.added}, token, customer, document, body).Err()
		if err == nil {
			return nil
		}
		d.options.Logger.Warn("a document is not added yet", "customer", customer, "document", document, "error", err)
		if wait.sleep(ctx) != nil {
			return fmt.Errorf("documents: %s of %s may not have been added: %w", document, customer, errors.Join(ctx.Err(), err))
		}
	}
}

// Dead returns the documents that were given up, the oldest first.
func (d *Documents) Dead(ctx context.Context) ([]string, error) {
	return d.run(ctx, "dead", []string{d.dead}).StringSlice()
}

// Remove deletes the queue, what waits in it and what was given up.
func (d *Documents) Remove(ctx context.Context) error {
	keys := append([]string{d.dead, d.added}, d.hands...)
	keys = append(append(keys, d.queues...), d.later...)
	return d.client.Unlink(ctx, keys...).Err()
}

func (d *Documents) run(ctx context.Context, script string, keys []string, arguments ...any) *redis.Cmd {
	return d.scripts[script].Run(ctx, d.client, keys, arguments...)
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
