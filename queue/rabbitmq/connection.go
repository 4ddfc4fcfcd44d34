package priorityrabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// link is a connection to RabbitMQ. With a URL it reconnects.
//
// It does not use the client's recovery, which restarts a channel's delivery numbers at 1:
// an old acknowledgement could then remove another document with the same number,
// unprocessed, from the queue.
type link struct {
	url     string // "": the connection is the caller's
	name    string // shown by the server
	prepare func(channel *amqp.Channel, major int) error

	mutex      sync.Mutex
	connection *amqp.Connection
	closed     bool
}

var (
	errClosed     = fmt.Errorf("priorityrabbitmq: %w", amqp.ErrClosed) // by Close, or the caller's connection is lost
	errRefused    = errors.New("priorityrabbitmq: refused")
	errFull       = errors.New("priorityrabbitmq: refused: the queue is full") // until a document leaves it
	errUnroutable = errors.New("priorityrabbitmq: no queue took it")
)

const (
	connectTime = 5 * time.Second
	answerTime  = 30 * time.Second // a connection is closed after so long without an answer
)

// line is a channel that reports why it was lost.
type line struct {
	*amqp.Channel
	connection *amqp.Connection
	lost       context.Context // ends with the channel; its cause is why
	returned   chan amqp.Return
}

// open returns a new channel, on which the queues were declared.
func (l *link) open(ctx context.Context) (*line, error) {
	connection, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer hurry(connection)()
	channel, err := connection.Channel()
	if err != nil {
		return nil, l.orClosed(fmt.Errorf("priorityrabbitmq: open a channel: %w", err))
	}
	version, _ := connection.Properties["version"].(string)
	number, _, _ := strings.Cut(version, ".")
	major, _ := strconv.Atoi(number)
	err = l.prepare(channel, major)
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		_ = channel.Close()
		err = fmt.Errorf("priorityrabbitmq: server %s: %w", version, err)
		if isRefused(err, amqp.PreconditionFailed) { // the queue exists with other arguments
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		return nil, l.orClosed(err)
	}

	lost, lose := context.WithCancelCause(context.Background())
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	cancelled := channel.NotifyCancel(make(chan string, 1))
	go func() {
		select {
		case reason := <-closed:
			if reason != nil {
				lose(fmt.Errorf("priorityrabbitmq: channel lost: %w", reason))
			}
		case _, signalled := <-cancelled: // the only sign from a quorum queue of RabbitMQ 4.3
			if signalled {
				lose(errors.New("priorityrabbitmq: the server ended the consumer: after its consumer_timeout, or with its queue"))
			}
		}
		lose(errors.New("priorityrabbitmq: channel closed"))
	}()
	return &line{channel, connection, lost, channel.NotifyReturn(make(chan amqp.Return, 1))}, nil
}

// hurry closes the connection if the server does not answer in time, because the client
// would wait forever. Call the returned function to cancel this.
func hurry(connection *amqp.Connection) (stop func() bool) {
	return time.AfterFunc(answerTime, func() { _ = connection.CloseDeadline(time.Now()) }).Stop
}

// Close closes the channel.
func (l *line) Close() error {
	defer hurry(l.connection)()
	return l.Channel.Close()
}

// orClosed returns errClosed for an error of a connection that does not reconnect.
func (l *link) orClosed(err error) error {
	if l.url == "" && l.connection.IsClosed() {
		return errClosed
	}
	return err
}

// connect returns the connection, or opens one.
func (l *link) connect(ctx context.Context) (*amqp.Connection, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if l.connection != nil && !l.connection.IsClosed() {
		return l.connection, nil
	}
	if l.url == "" {
		return nil, errClosed
	}
	connection, err := l.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("priorityrabbitmq: connect: %w", err)
	}
	l.connection = connection
	return connection, nil
}

func (l *link) dial(ctx context.Context) (*amqp.Connection, error) {
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(l.name)
	return amqp.DialConfig(l.url, amqp.Config{
		Properties: properties, // and a heartbeat every 10 seconds, as it is by default
		Dial: func(network, address string) (net.Conn, error) {
			dialer := net.Dialer{Timeout: connectTime}
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				err = conn.SetDeadline(time.Now().Add(connectTime)) // of the greeting; the client lifts it
			}
			return conn, err
		},
	})
}

func (l *link) close() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closed = true
	if l.connection == nil || l.url == "" {
		return nil
	}
	if err := l.connection.CloseDeadline(time.Now().Add(connectTime)); !errors.Is(err, amqp.ErrClosed) {
		return err
	}
	return nil
}

// publish returns nil when RabbitMQ has written the message to a queue. After errFull and
// errUnroutable no queue has it. After any other error but errRefused a queue may
// have it, and the line is unusable.
func (l *line) publish(ctx context.Context, exchange, key string, message amqp.Publishing) error {
	const mandatory, immediate = true, false // mandatory: a queue that was deleted must not swallow it
	confirm, err := l.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, message)
	if err != nil {
		return err
	}
	confirmed, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return err
	case !confirmed && l.IsClosed():
		<-l.lost.Done()
		if err := context.Cause(l.lost); isRefused(err, amqp.PreconditionFailed, amqp.NotFound, amqp.AccessRefused) {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		return context.Cause(l.lost)
	case !confirmed:
		return errFull
	}
	select {
	case back := <-l.returned: // it comes before the confirmation
		return fmt.Errorf("%w: %s", errUnroutable, back.ReplyText)
	default:
		return nil
	}
}

// isRefused reports whether the server gave one of these reasons. A reason that concerns a
// message, such as its length, will recur.
func isRefused(err error, reasons ...int) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && slices.Contains(reasons, refused.Code)
}
