// Package prioritynats gives the documents of NATS JetStream their levels. Publish calls
// Submit and publishes to the subject of the level; Handle, or Work, has your function
// work on a message, calls Done, and acknowledges it.
//
// JetStream has no priorities among messages. Each level has a subject of one stream,
// documents.1 to documents.9, and a consumer; Work chooses the level to serve next.
//
// A new program, or one that leaves its streams and consumers to this package:
//
//	queue, err := prioritynats.Open(ctx, js, store, nil)
//	ack, err := queue.Publish(ctx, customer, document, &nats.Msg{Data: body})
//	err = queue.Work(ctx, process)
//
// A program that keeps its own consumers, one a level, gives their messages to Handle:
//
//	queue, err := prioritynats.New(js, store, nil)
//	consumer.Consume(func(msg jetstream.Msg) {
//		queue.Handle(ctx, msg, process)
//	}, jetstream.PullMaxMessages(1))
//
// A message whose process fails is tried again after Backoff, and then given up: it goes
// to the stream documents-dead. Dead lists those, and Retry puts one back.
//
// A message is served at least once: after a crash perhaps twice. Write results under
// customer and document.
package prioritynats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/queue"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options of a queue. The zero value works. Producers and workers have the same.
type Options struct {
	// Name begins the subjects Name.1, Name.2 …, and names the consumers Name-1, Name-2 …
	// and the stream Name-dead of messages that were given up: letters, digits, "-" and
	// "_". Default: documents.
	Name string

	// Stream is a stream of your own that has Name.* among its subjects. Open adds the
	// consumers to it and leaves the rest of it as it is. Default: Open makes the stream
	// Name.
	Stream string

	// Cost is how much work a message is, in any unit that all share. Default: the
	// length of its body in bytes.
	Cost func(*nats.Msg) float64

	// Backoff is how long a message waits after its first failure, after its second, …;
	// then it is given up. Empty and not nil: after the first. Default: 1 s, 10 s, 1
	// minute.
	Backoff []time.Duration

	// Limit is how long process may take for a message; then its context ends. Default:
	// 10 minutes.
	Limit time.Duration

	// AckWait is how long the server waits to hear of a message before it gives it to
	// another worker. Workers renew it while they work. For New: the AckWait of your
	// consumers, or less. Default: 30 s, as the server's.
	AckWait time.Duration

	// Workers is how many messages Work works on at a time. Default: 1.
	Workers int

	// Weights are how often Work serves each level while all have messages, level 1's
	// first. Default: queue.LinearWeights.
	Weights []int64

	// Strict has Work always serve the first level that has messages, whatever Weights
	// say: the last level may starve. Default: by weight.
	Strict bool

	// Replicas is how many servers of a cluster have each message: 3 in production.
	// Default: 1.
	Replicas int

	// MaxBytes bounds what waits in the stream that Open makes. A full stream refuses
	// more, and drops nothing. Default: 0, no limit.
	MaxBytes int64

	// Duplicates is how long the stream recognizes a message that is published again,
	// by its Nats-Msg-Id. Default: 2 minutes, as the server's.
	Duplicates time.Duration

	// Logger gets what goes wrong. Default: slog.Default().
	Logger *slog.Logger
}

// Queue is a stream of JetStream with a subject for each level, and a stream of messages
// that were given up. It is safe for concurrent use.
type Queue struct {
	jetStream jetstream.JetStream
	store     priority.Store
	options   Options
	consumers []jetstream.Consumer // level 1's first; none if New has made the queue
}

const (
	patience = 2 * time.Second        // for an answer of the server
	pause    = 500 * time.Millisecond // before what did not work is tried again
)

// New returns a queue on streams that are there, for programs with consumers of their own:
// all but Work. It does no I/O. The streams are one with the subjects Name.*, and Name-dead
// with the subject of that name; each consumer has the subject of one level, MaxDeliver and
// MaxAckPending -1, and fetches one message for each free worker.
//
// Give it a store with a fallback, such as a *fleet.Member: while Submit fails, nothing can
// be published. Nil opts are the defaults.
func New(js jetstream.JetStream, store priority.Store, opts *Options) (*Queue, error) {
	if opts == nil {
		opts = &Options{}
	}
	for name, value := range map[string]any{"the JetStream": js, "the store": store} {
		if typednil.Is(value) {
			return nil, fmt.Errorf("prioritynats: %w: %s is nil", priority.ErrInvalidOption, name)
		}
	}
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("prioritynats: %w", err)
	}
	q := &Queue{jetStream: js, store: store, options: *opts}
	own := &q.options
	own.Name, own.Workers, own.Limit = cmp.Or(own.Name, "documents"), cmp.Or(own.Workers, 1), cmp.Or(own.Limit, 10*time.Minute)
	own.AckWait, own.Duplicates = cmp.Or(own.AckWait, 30*time.Second), cmp.Or(own.Duplicates, 2*time.Minute)
	own.Logger = cmp.Or(own.Logger, slog.Default())
	if own.Backoff == nil {
		own.Backoff = []time.Duration{time.Second, 10 * time.Second, time.Minute}
	}
	if own.Cost == nil {
		own.Cost = func(message *nats.Msg) float64 { return float64(len(message.Data)) }
	}
	return q, nil
}

// Open is New, and makes the streams and consumers or gives them these options. It waits
// until a server answers, or ctx ends.
func Open(ctx context.Context, js jetstream.JetStream, store priority.Store, opts *Options) (*Queue, error) {
	q, err := New(js, store, opts)
	if err != nil {
		return nil, err
	}
	var refusal error
	err = q.insist(ctx, "open the queue", func(ctx context.Context) error {
		err := q.create(ctx)
		if isAnswer(err) {
			refusal, err = err, nil
		}
		return err
	})
	if err = errors.Join(err, refusal); err != nil {
		return nil, fmt.Errorf("prioritynats: open the queue %s: %w", q.options.Name, err)
	}
	return q, nil
}

// check returns what is wrong with options, as far as the server does not look at it.
func (o *Options) check() error {
	least := int64(0)
	for _, wait := range o.Backoff {
		least = min(least, int64(wait))
	}
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"Workers", int64(o.Workers)}, {"Limit", int64(o.Limit)}, {"Backoff", least}, {"AckWait", int64(o.AckWait)},
		{"Replicas", int64(o.Replicas)}, {"MaxBytes", o.MaxBytes}, {"Duplicates", int64(o.Duplicates)},
	} {
		if field.value < 0 {
			return fmt.Errorf("%w: %s is below 0", priority.ErrInvalidOption, field.name)
		}
	}
	_, err := queue.NewPicker(o.Weights...)
	return err
}

// isAnswer returns whether an error is a refusal, which no other try changes, and
// not that nobody could answer.
func isAnswer(err error) bool {
	const unavailable = 10008 // a cluster that has no leader at the moment
	var answer jetstream.JetStreamError
	return errors.As(err, &answer) && (answer.APIError() == nil || answer.APIError().ErrorCode != unavailable)
}

// ConnectOptions are for the connection of a queue, before your own: it is made again for
// ever, sends nothing late that its caller has given up, and logs what becomes of it. Nil:
// slog.Default().
func ConnectOptions(logger *slog.Logger) []nats.Option {
	log := cmp.Or(logger, slog.Default())
	lost := func(_ *nats.Conn, err error) {
		if err != nil { // not by Close
			log.Warn("NATS is away", "error", err)
		}
	}
	return []nats.Option{
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(pause), nats.ReconnectJitter(pause, pause), // a fleet does not come back all at once
		nats.ReconnectBufSize(-1),           // what cannot be sent fails now, and is not sent unseen when it is too late
		nats.PingInterval(10 * time.Second), // a peer that is gone without a word is noticed within 30 s
		nats.DisconnectErrHandler(lost), nats.ReconnectErrHandler(lost),
		nats.ReconnectHandler(func(c *nats.Conn) { log.Info("NATS is back", "server", c.ConnectedUrlRedacted()) }),
		nats.ClosedHandler(func(c *nats.Conn) { // by Close, or by a refusal that nats.go does not know
			if err := c.LastError(); err != nil && !errors.Is(err, nats.ErrSlowConsumer) {
				log.Error("the connection to NATS is closed for good", "error", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if !errors.Is(err, nats.ErrSlowConsumer) { // busy workers need not hear of each arrival
				log.Warn("NATS", "error", err)
			}
		}),
	}
}

func (q *Queue) create(ctx context.Context) error {
	name := q.options.Name
	config := jetstream.StreamConfig{
		Name:       name,
		Subjects:   []string{name + ".*"},
		Retention:  jetstream.WorkQueuePolicy, // a message that was acknowledged is gone
		Storage:    jetstream.FileStorage,
		Replicas:   q.options.Replicas,
		Discard:    jetstream.DiscardNew, // the default drops the oldest message of a full stream
		MaxBytes:   q.options.MaxBytes,
		Duplicates: q.options.Duplicates,
	}
	if q.options.Stream == "" {
		if _, err := q.jetStream.CreateOrUpdateStream(ctx, config); err != nil {
			return err
		}
	}
	config.Name, config.Subjects, config.Retention = deadName(name), []string{deadName(name)}, jetstream.LimitsPolicy
	config.MaxBytes = 0 // what finds no room there stays in the queue
	if _, err := q.jetStream.CreateOrUpdateStream(ctx, config); err != nil {
		return err
	}
	q.consumers = nil
	for i, subject := range queue.NATSSubjects(name, q.store.Last()) {
		consumer, err := q.jetStream.CreateOrUpdateConsumer(ctx, cmp.Or(q.options.Stream, name), jetstream.ConsumerConfig{
			Durable:       fmt.Sprint(name, "-", i+1),
			FilterSubject: subject,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       q.options.AckWait,
			MaxDeliver:    -1, // else JetStream keeps a message that was delivered so often, and shows it to nobody
			MaxAckPending: -1, // else a thousand messages that wait for their next try stop their level
		})
		if err != nil {
			return err
		}
		q.consumers = append(q.consumers, consumer)
	}
	return nil
}

// insist tries until it works, or the context ends.
func (q *Queue) insist(ctx context.Context, what string, try func(ctx context.Context) error) error {
	var last error
	for {
		limited, cancel := context.WithTimeout(ctx, patience)
		err := try(limited)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && last != nil:
			err = last // more telling than that the context has ended
		case errors.Is(err, nats.ErrReconnectBufExceeded): // the buffer that ConnectOptions turn off
			err = errors.New("not connected to NATS")
		case errors.Is(err, nats.ErrNoResponders):
			err = fmt.Errorf("%w: JetStream is off, or the stream is gone", err)
		}
		if last == nil || last.Error() != err.Error() { // once, however long it lasts
			q.options.Logger.Warn("trying to "+what, "error", err)
		}
		last = err
		if q.connection().IsClosed() || sleep(ctx, pause) != nil {
			return fmt.Errorf("%w: %w", err, cmp.Or(ctx.Err(), nats.ErrConnectionClosed))
		}
	}
}

func (q *Queue) connection() *nats.Conn { return q.jetStream.Conn() }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
