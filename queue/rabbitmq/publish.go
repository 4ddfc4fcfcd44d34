package priorityrabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	errRefused = errors.New("refused") // the same message would be refused again
	errFull    = errors.New("the queue is full")
)

// publish publishes a message that no store counts.
func (q *Queue) publish(ctx context.Context, exchange, key string, message amqp.Publishing) error {
	p, err := q.open(ctx)
	if err != nil {
		return err
	}
	return q.send(ctx, p, exchange, key, message)
}

// openChannel returns an idle channel, or a new one.
func (q *Queue) openChannel(ctx context.Context) (publisher, error) {
	for {
		select {
		case p := <-q.publishers:
			if !p.IsClosed() {
				return p, nil
			}
			continue
		default:
		}
		if err := within(ctx, q.addChannel); err != nil {
			return nil, fmt.Errorf("priorityrabbitmq: open a channel: %w", err)
		}
	}
}

// addChannel opens a channel and keeps it, also if nobody waits for it any more.
func (q *Queue) addChannel() error {
	channel, err := q.connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		_ = channel.Close()
		return err
	}
	q.keep(&confirming{channel, channel.NotifyReturn(make(chan amqp.Return, 1)), channel.NotifyClose(make(chan *amqp.Error, 1))})
	return nil
}

func (q *Queue) keep(p publisher) {
	select {
	case q.publishers <- p:
	default:
		_ = p.Close()
	}
}

// send returns nil when RabbitMQ has written the message to a queue. A channel on which a
// message failed is closed, so that no late answer is taken for the next one's.
func (q *Queue) send(ctx context.Context, p publisher, exchange, key string, message amqp.Publishing) error {
	err := within(ctx, func() error {
		if err := p.publish(ctx, exchange, key, message); err != nil {
			_ = p.Close()
			return err
		}
		q.keep(p)
		return nil
	})
	if err != nil {
		return fmt.Errorf("priorityrabbitmq: publish to %q with key %q: %w", exchange, key, err)
	}
	return nil
}

// within returns when the call does, or when the context ends. It does not leave the context
// to the client, which ignores it while the server, short of memory, does not read.
func within(ctx context.Context, call func() error) error {
	returned := make(chan error, 1)
	go func() { returned <- call() }()
	select {
	case err := <-returned:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// publisher publishes one message at a time.
type publisher interface {
	publish(ctx context.Context, exchange, key string, message amqp.Publishing) error
	IsClosed() bool
	Close() error
}

// confirming is a channel for one message at a time: RabbitMQ returns a message that no queue
// takes without saying which one it is.
type confirming struct {
	*amqp.Channel
	returned chan amqp.Return
	closed   chan *amqp.Error // why the channel was closed
}

// publish returns nil when RabbitMQ has written the message to a queue. After errRefused and
// errFull no queue has it; after any other error a queue may have it.
func (p *confirming) publish(ctx context.Context, exchange, key string, message amqp.Publishing) error {
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
func (q *Queue) checkMessage(exchange, key string, m amqp.Publishing) error {
	if err := m.Headers.Validate(); err != nil {
		return invalid(fmt.Sprint("message: a header: ", err))
	}
	short := []string{exchange, key, m.ContentType, m.ContentEncoding, m.CorrelationId, m.ReplyTo, m.Expiration, m.MessageId, m.Type, m.UserId, m.AppId}
	size := sizeOf(m.Headers, &short)
	for _, text := range short {
		if size += len(text); len(text) > 255 {
			return invalid(fmt.Sprintf("message: %.80q is longer than 255 bytes", text))
		}
	}
	const reserve = 2048 // for what is added when it fails
	if most := q.frameSize - reserve; q.frameSize > 0 && size > most {
		return invalid(fmt.Sprintf("message: its headers have %d bytes, more than %d", size, most))
	}
	return nil
}

// sizeOf is about how many bytes a header takes, without names, which it collects.
func sizeOf(header any, names *[]string) int {
	size := 9
	switch h := header.(type) {
	case string:
		size += len(h)
	case []byte:
		size += len(h)
	case []any:
		for _, item := range h {
			size += sizeOf(item, names)
		}
	case amqp.Table:
		for name, field := range h {
			*names = append(*names, name)
			size += sizeOf(field, names)
		}
	}
	return size
}
