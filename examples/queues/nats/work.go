package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/docpriority/priority/priorityotel"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Process works on a document. It may be called again for one that it has worked
// on: what it writes, it writes under customer and id. An id is one customer's.
type Process = func(ctx context.Context, customer, document string, body []byte) error

// Work has process work on documents until the context ends, and on those that it
// has in hand to their end. It goes on through every trouble of the server, unless
// the connection is closed for good: then it returns an error.
func (d *Documents) Work(ctx context.Context, process Process) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	arrivals, err := d.watch(ctx)
	if err != nil {
		return fmt.Errorf("work on the queue %s: %w", d.options.Name, err)
	}
	var workers sync.WaitGroup
	for range d.options.Workers {
		workers.Go(func() {
			for ctx.Err() == nil && !d.connection.IsClosed() {
				if message := d.next(ctx, arrivals); message != nil {
					d.serve(ctx, message, process)
				}
			}
			arrivals.wake() // the next one ends, too
		})
	}
	workers.Wait()
	if ctx.Err() == nil {
		return fmt.Errorf("work on the queue %s: %w", d.options.Name, nats.ErrConnectionClosed)
	}
	return nil
}

// next fetches a document for a worker that is free, and waits for one. It returns
// nil where it is better to ask again.
func (d *Documents) next(ctx context.Context, arrivals *arrivals) jetstream.Msg {
	level, told, any := arrivals.pick()
	if !any {
		arrivals.wait(ctx)
		return nil
	}
	batch, err := d.consumers[level-1].FetchNoWait(1)
	if err == nil {
		for message := range batch.Messages() {
			arrivals.answer(level, told, false)
			return message
		}
		err = batch.Error()
	}
	arrivals.answer(level, told, err == nil)
	if err == nil {
		return nil
	}
	if d.connection.IsConnected() { // else that is what was logged
		d.options.Logger.Warn("no document can be fetched", "level", level, "error", err)
	}
	_ = sleep(ctx, pause)
	return nil
}

// serve works on a document, and says what becomes of it.
func (d *Documents) serve(working context.Context, message jetstream.Msg, process Process) {
	metadata, err := message.Metadata()
	if err != nil {
		d.options.Logger.Warn("a message is not of JetStream", "error", err)
		return
	}
	delivered, most := int(metadata.NumDelivered), len(d.options.Backoff)+1
	customer, document, failure := identity(message.Headers())
	log := d.options.Logger.With("document", document, "delivered", delivered)

	last, held := true, true
	var took time.Duration
	switch {
	case failure != nil: // somebody else has published it
	case delivered > 2*most:
		failure = errors.New("its workers were lost or did not get it, each time")
	default:
		headers := make(map[string]string)
		for name := range message.Headers() {
			headers[name] = message.Headers().Get(name)
		}
		traced, end := priorityotel.StartProcess(working, system, d.options.Name, headers)
		working = traced
		defer func() { end(failure) }()
		began := time.Now()
		held, failure = d.attempt(working, message, func(ctx context.Context) error {
			return process(ctx, customer, document, message.Data())
		})
		took, last = time.Since(began), delivered >= most
	}

	// From here the server alone is waited for. Not for longer than AckWait: after a
	// crash it may have forgotten that it gave the document, and does not answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(working), d.options.AckWait)
	defer cancel()
	switch {
	case failure == nil:
	case !held:
		log.Warn("a document failed after another worker may have got it", "error", failure)
		return
	case !last:
		log.Warn("a document failed", "error", failure)
		if err := message.NakWithDelay(d.options.Backoff[delivered-1]); err != nil {
			log.Warn("a document is tried again when AckWait is over", "error", err)
		}
		return
	default:
		log.Error("a document is given up", "error", failure)
		if err := d.bury(ctx, message, failure); err != nil {
			if ctx.Err() == nil { // refused, or it comes back when AckWait is over
				log.Error("a document that cannot be given up stays in the queue", "error", err)
				_ = message.NakWithDelay(time.Minute)
			}
			return
		}
	}
	// Done first: after a crash between the two it is said again, with the document.
	if document != "" {
		d.done(context.WithoutCancel(working), customer, document, took)
	}
	_ = d.insist(ctx, "acknowledge a document", message.DoubleAck)
}

// attempt runs process within the limit. It returns whether the document was this
// worker's all the time: a machine that stands still for AckWait loses it to another.
func (d *Documents) attempt(working context.Context, message jetstream.Msg, process func(context.Context) error) (held bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(working), d.options.Limit)
	defer cancel()
	heard, ended := time.Now(), make(chan struct{})
	isHeld := func() bool { return time.Since(heard) < d.options.AckWait }
	go func() {
		defer close(ended)
		for sleep(ctx, d.options.AckWait/3) == nil && isHeld() {
			sent := time.Now()
			if message.InProgress() == nil {
				heard = sent
			}
		}
	}()
	defer func() {
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("panic: %v\n%s", trouble, debug.Stack())
		}
		cancel()
		<-ended
		held = isHeld()
	}()
	return false, process(ctx)
}
