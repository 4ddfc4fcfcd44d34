package priorityrabbitmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	errRefused = errors.New("refused") // the same message would be refused again
	errFull    = errors.New("the queue is full")
)

// submit submits a document, and returns the priority of its message.
type submit func() (uint8, error)

// publishConfirmed returns nil when RabbitMQ has written the message to a queue. It does not
// leave the context to the client, which ignores it while the server, short of memory, does
// not read. It submits when the message can be sent: before, nothing must be pending.
func (q *Queue) publishConfirmed(ctx context.Context, exchange, key string, message amqp.Publishing, submit submit) (err error) {
	published := make(chan error, 1)
	go func() { published <- q.publishOn(ctx, exchange, key, message, submit) }()
	select {
	case err = <-published:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("priorityrabbitmq: publish to %q with key %q: %w", exchange, key, err)
	}
	return nil
}

// publishOn publishes on an idle channel, or opens one. A channel on which a message failed
// is closed, so that no late answer is taken for the next one's.
func (q *Queue) publishOn(ctx context.Context, exchange, key string, message amqp.Publishing, submit submit) error {
	p, err := q.idlePublisher()
	if err != nil {
		return err
	}
	if submit != nil {
		message.Priority, err = submit()
	}
	if err == nil {
		err = p.publish(ctx, exchange, key, message)
	}
	if err != nil {
		_ = p.Close()
		return err
	}
	select {
	case q.publishers <- p:
	default:
		_ = p.Close()
	}
	return nil
}

func (q *Queue) idlePublisher() (*publisher, error) {
	select {
	case p := <-q.publishers:
		if !p.IsClosed() {
			return p, nil
		}
	default:
	}
	channel, err := q.connection.Channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		_ = channel.Close()
		return nil, err
	}
	return &publisher{channel, channel.NotifyReturn(make(chan amqp.Return, 1)), channel.NotifyClose(make(chan *amqp.Error, 1))}, nil
}

// publisher is a channel for one message at a time: RabbitMQ returns a message that no queue
// takes without saying which one it is.
type publisher struct {
	*amqp.Channel
	returned chan amqp.Return
	closed   chan *amqp.Error // why the channel was closed
}

// publish returns nil when RabbitMQ has written the message to a queue. After errRefused and
// errFull no queue has it; after any other error a queue may have it.
func (p *publisher) publish(ctx context.Context, exchange, key string, message amqp.Publishing) error {
	const mandatory, immediate = true, false // mandatory: a queue that was deleted must not swallow it
	confirmation, err := p.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, message)
	if err != nil {
		return err
	}
	confirmed, err := confirmation.WaitContext(ctx)
	switch {
	case err != nil:
		return err
	case !confirmed && p.IsClosed():
		return closedBecause(<-p.closed)
	case !confirmed:
		return errFull
	}
	select {
	case message := <-p.returned: // it comes before the confirmation
		return fmt.Errorf("%w: no queue took it: %s", errRefused, message.ReplyText)
	default:
		return nil
	}
}

// closedBecause tells a reason that concerns the message, such as its length, from a
// connection that was lost.
func closedBecause(reason *amqp.Error) error {
	switch {
	case reason == nil:
		return amqp.ErrClosed
	case slices.Contains([]int{amqp.PreconditionFailed, amqp.NotFound, amqp.AccessRefused}, reason.Code):
		return fmt.Errorf("%w: %w", errRefused, reason)
	}
	return reason
}

// checkMessage returns an error for a message that can never be sent. RabbitMQ's client would
// notice when half of it is sent, and close the connection.
func checkMessage(exchange, key string, m amqp.Publishing) error {
	if err := m.Headers.Validate(); err != nil {
		return invalid(fmt.Sprint("message: a header: ", err))
	}
	short := []string{exchange, key, m.ContentType, m.ContentEncoding, m.CorrelationId, m.ReplyTo, m.Expiration, m.MessageId, m.Type, m.UserId, m.AppId}
	for _, text := range slices.AppendSeq(short, maps.Keys(m.Headers)) {
		if len(text) > 255 {
			return invalid(fmt.Sprintf("message: %.80q is longer than 255 bytes", text))
		}
	}
	return nil
}
