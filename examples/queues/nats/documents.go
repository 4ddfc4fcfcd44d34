package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options of a queue. Producers and consumers of a queue have the same.
type Options struct {
	Name    string          // of the stream: letters, digits, "-" and "_"
	Workers int             // documents at a time in this process; 0: 1
	Limit   time.Duration   // how long a document may take; 0: 10 minutes
	Backoff []time.Duration // how long a document waits after its first failure, after its second, …; then it is given up
	Logger  *slog.Logger    // nil: slog.Default()

	AckWait    time.Duration // a worker that is not heard of for so long is lost: others get its documents; 0: 30 s
	Weights    []int64       // how often each level is served while all have documents; nil: queue.LinearWeights
	Strict     bool          // always the first level that has documents: the last may starve
	Replicas   int           // of the cluster's servers that have each document: 3 in production; 0: 1
	MaxBytes   int64         // of all documents in the queue but those that were given up, 0: no limit; a full queue refuses more and drops none
	Duplicates time.Duration // a document that is published again within it is recognized, for which the server keeps its id; 0: 2 minutes
	Connection []nats.Option // such as credentials
}

// Documents is a stream of JetStream with a subject and a consumer for each level,
// and a stream of the documents that were given up.
type Documents struct {
	connection *nats.Conn
	jetStream  jetstream.JetStream
	store      priority.Store
	options    Options
	waiting    jetstream.Stream
	dead       jetstream.Stream
	consumers  []jetstream.Consumer // of level 1 first
}

const (
	patience = 2 * time.Second        // for an answer of the server
	pause    = 500 * time.Millisecond // before what did not work is tried again
)

// Open connects to a server, or to each of a cluster ("nats://one:4222,nats://two:4222"),
// waits until one answers, and gives the streams and consumers these options.
func Open(ctx context.Context, url string, store priority.Store, options *Options) (*Documents, error) {
	if options == nil {
		return nil, fmt.Errorf("open a queue: %w: there are no options", priority.ErrInvalidOption)
	}
	if err := options.check(); err != nil {
		return nil, fmt.Errorf("open the queue %s: %w", options.Name, err)
	}
	d := &Documents{store: store, options: *options}
	own := &d.options
	own.Workers, own.Limit = cmp.Or(own.Workers, 1), cmp.Or(own.Limit, 10*time.Minute)
	own.AckWait, own.Logger = cmp.Or(own.AckWait, 30*time.Second), cmp.Or(own.Logger, slog.Default())
	var err, refusal error
	if d.connection, err = nats.Connect(url, append(d.lasting(), options.Connection...)...); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if d.jetStream, err = jetstream.New(d.connection); err == nil {
		err = d.insist(ctx, "open the queue", func(ctx context.Context) error {
			err := d.create(ctx)
			if isAnswer(err) {
				refusal, err = err, nil
			}
			return err
		})
	}
	if err = errors.Join(err, refusal); err != nil {
		d.connection.Close()
		return nil, fmt.Errorf("open the queue %s: %w", options.Name, err)
	}
	return d, nil
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

// lasting are the options of a connection that is made again for ever.
func (d *Documents) lasting() []nats.Option {
	log := d.options.Logger
	lost := func(_ *nats.Conn, err error) {
		if err != nil { // not by Close
			log.Warn("NATS is away", "error", err)
		}
	}
	return []nats.Option{
		nats.Name(d.options.Name),
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

func (d *Documents) create(ctx context.Context) (err error) {
	name := d.options.Name
	config := jetstream.StreamConfig{
		Name:       name,
		Subjects:   []string{name + ".*"},
		Retention:  jetstream.WorkQueuePolicy, // a document that was acknowledged is gone
		Storage:    jetstream.FileStorage,
		Replicas:   d.options.Replicas,
		Discard:    jetstream.DiscardNew, // the default drops the oldest document of a full stream
		MaxBytes:   d.options.MaxBytes,
		Duplicates: d.options.Duplicates,
	}
	if d.waiting, err = d.jetStream.CreateOrUpdateStream(ctx, config); err != nil {
		return err
	}
	config.Name, config.Subjects, config.Retention = deadName(name), []string{deadName(name)}, jetstream.LimitsPolicy
	config.MaxBytes = 0 // what finds no room there stays in the queue
	if d.dead, err = d.jetStream.CreateOrUpdateStream(ctx, config); err != nil {
		return err
	}
	d.consumers = nil
	for i, subject := range queue.NATSSubjects(name, d.store.Last()) {
		consumer, err := d.waiting.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable:       fmt.Sprint("level-", i+1),
			FilterSubject: subject,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       d.options.AckWait,
			MaxDeliver:    -1, // else JetStream keeps a document that was delivered so often, and shows it to nobody
			MaxAckPending: -1, // else a thousand documents that wait for their next try stop their level
		})
		if err != nil {
			return err
		}
		d.consumers = append(d.consumers, consumer)
	}
	return nil
}

// insist tries until it works, or the context ends.
func (d *Documents) insist(ctx context.Context, what string, try func(ctx context.Context) error) error {
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
		case errors.Is(err, nats.ErrReconnectBufExceeded): // the buffer that lasting has not
			err = errors.New("not connected to NATS")
		case errors.Is(err, nats.ErrNoResponders):
			err = fmt.Errorf("%w: JetStream is off, or the stream is gone", err)
		}
		if last == nil || last.Error() != err.Error() { // once, however long it lasts
			d.options.Logger.Warn("trying to "+what, "error", err)
		}
		last = err
		if d.connection.IsClosed() || sleep(ctx, pause) != nil {
			return fmt.Errorf("%w: %w", err, cmp.Or(ctx.Err(), nats.ErrConnectionClosed))
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Remove deletes the queue, and the documents that were given up.
func (d *Documents) Remove(ctx context.Context) error {
	var failures error
	for _, name := range []string{d.options.Name, deadName(d.options.Name)} {
		if err := d.jetStream.DeleteStream(ctx, name); !errors.Is(err, jetstream.ErrStreamNotFound) {
			failures = errors.Join(failures, err)
		}
	}
	return failures
}

// Close closes the connection. Call it after Work.
func (d *Documents) Close() error {
	d.connection.Close()
	return nil
}
