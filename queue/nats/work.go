package prioritynats

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/priorityotel"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Process works on a message. With an error, or a panic, it is tried again later. It may be
// called again for a document that it has worked on: what it writes, it writes under
// customer and id, which Identity returns. It does not acknowledge the message itself.
type Process = func(ctx context.Context, message jetstream.Msg) error

// Work fetches messages and has process work on them, on as many at a time as there are
// Workers, until the context ends; those in hand are finished. It goes on through every
// trouble of the server, unless the connection is closed for good: then it returns an
// error. The queue is one of Open's.
func (q *Queue) Work(ctx context.Context, process Process) error {
	if len(q.consumers) == 0 {
		return fmt.Errorf("prioritynats: %w: the queue has no consumers: make it with Open", priority.ErrInvalidOption)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	arrivals, err := q.watch(ctx)
	if err != nil {
		return fmt.Errorf("prioritynats: work on the queue %s: %w", q.options.Name, err)
	}
	var workers sync.WaitGroup
	for range q.options.Workers {
		workers.Go(func() {
			for ctx.Err() == nil && !q.connection().IsClosed() {
				if message := q.next(ctx, arrivals); message != nil {
					q.Handle(ctx, message, process)
				}
			}
			arrivals.wake() // the next one ends, too
		})
	}
	workers.Wait()
	if ctx.Err() == nil {
		return fmt.Errorf("prioritynats: work on the queue %s: %w", q.options.Name, nats.ErrConnectionClosed)
	}
	return nil
}

// next fetches a document for a worker that is free, and waits for one. It returns
// nil where it is better to ask again.
func (q *Queue) next(ctx context.Context, arrivals *arrivals) jetstream.Msg {
	level, told, any := arrivals.pick()
	if !any {
		arrivals.wait(ctx)
		return nil
	}
	batch, err := q.consumers[level-1].FetchNoWait(1)
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
	if q.connection().IsConnected() { // else that is what was logged
		q.options.Logger.Warn("no document can be fetched", "level", level, "error", err)
	}
	_ = sleep(ctx, pause)
	return nil
}

// Handle has process work on a message of a consumer, within Limit, and says what becomes
// of it: Done and then the acknowledgement; or that it is tried again after Backoff; or,
// when it has failed as often as it may, a copy in the stream of those that were given up,
// Done and then the acknowledgement. It keeps the message from other workers meanwhile. The
// end of ctx does not end process: call Handle in as many goroutines as there are workers,
// and wait for them.
//
// A message that Publish has not made is handled in the same way, without Done.
func (q *Queue) Handle(ctx context.Context, message jetstream.Msg, process Process) {
	metadata, err := message.Metadata()
	if err != nil {
		q.options.Logger.Warn("a message is not of JetStream", "error", err)
		return
	}
	delivered, most := int(metadata.NumDelivered), len(q.options.Backoff)+1
	customer, document := Identity(message.Headers())
	log := q.options.Logger.With("document", document, "delivered", delivered)

	working, last, held := ctx, true, true
	var failure error
	var took time.Duration
	if delivered > 2*most {
		failure = errors.New("its workers were lost or did not get it, each time")
	} else {
		headers := make(map[string]string)
		for name := range message.Headers() {
			headers[name] = message.Headers().Get(name)
		}
		traced, end := priorityotel.StartProcess(working, system, q.options.Name, headers)
		working = traced
		defer func() { end(failure) }()
		began := time.Now()
		held, failure = q.attempt(working, message, process)
		took, last = time.Since(began), delivered >= most
	}

	// From here the server alone is waited for. Not for longer than AckWait: after a
	// crash it may have forgotten that it gave the document, and does not answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(working), q.options.AckWait)
	defer cancel()
	switch {
	case failure == nil:
	case !held:
		log.Warn("a document failed after another worker may have got it", "error", failure)
		return
	case !last:
		log.Warn("a document failed", "error", failure)
		if err := message.NakWithDelay(q.options.Backoff[delivered-1]); err != nil {
			log.Warn("a document is tried again when AckWait is over", "error", err)
		}
		return
	default:
		log.Error("a document is given up", "error", failure)
		if err := q.bury(ctx, message, failure, delivered); err != nil {
			if ctx.Err() == nil { // refused, or it comes back when AckWait is over
				log.Error("a document that cannot be given up stays in the queue", "error", err)
				_ = message.NakWithDelay(time.Minute)
			}
			return
		}
	}
	// Done first: after a crash between the two it is said again, with the document.
	if customer != "" {
		q.done(context.WithoutCancel(working), customer, document, took)
	}
	_ = q.insist(ctx, "acknowledge a document", func(ctx context.Context) error {
		err := message.DoubleAck(ctx)
		if errors.Is(err, jetstream.ErrMsgAlreadyAckd) { // by process, against what it is told
			return nil
		}
		return err
	})
}

// attempt runs process within the limit. It returns whether the document was this
// worker's all the time: a machine that stands still for AckWait loses it to another.
func (q *Queue) attempt(working context.Context, message jetstream.Msg, process Process) (held bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(working), q.options.Limit)
	defer cancel()
	heard, ended := time.Now(), make(chan struct{})
	isHeld := func() bool { return time.Since(heard) < q.options.AckWait }
	go func() {
		defer close(ended)
		for sleep(ctx, q.options.AckWait/3) == nil && isHeld() {
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
	return false, process(ctx, message)
}
