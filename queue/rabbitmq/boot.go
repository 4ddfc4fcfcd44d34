package priorityrabbitmq

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// After a crash, a classic queue calls all that is in it redelivered, also what nobody
// began. To tell that from a lost worker, each document carries a mark of the run of
// the server in which it was published. The mark is a message that is not persistent:
// it ends with the run.

// readMark returns the mark of the server's run, and makes it where there is none.
func (l *link) readMark(ctx context.Context) (string, error) {
	if l.boot == "" {
		return "", nil
	}
	connection := l.connection
	if l.url != "" {
		// Of its own: a connection that has published once is held up, with all that it
		// acknowledges, when the server is short of memory.
		var err error
		if connection, err = l.dial(ctx); err != nil {
			return "", err
		}
		defer func() { _ = connection.CloseDeadline(time.Now().Add(connectTime)) }() // and what waits for it ends
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	for {
		type answer struct {
			mark string
			err  error
		}
		answers := make(chan answer, 1)
		go func() {
			mark, err := readMark(ctx, connection, l.boot)
			answers <- answer{mark, err}
		}()
		select {
		case a := <-answers:
			if !isInUse(a.err) {
				return a.mark, a.err
			}
			_ = sleep(ctx, pause/50) // another reads it
		case <-ctx.Done():
		}
		switch err := ctx.Err(); {
		case errors.Is(err, context.DeadlineExceeded):
			return "", nil // a server short of memory takes none; to work is better than to wait
		case err != nil:
			return "", err
		}
	}
}

func readMark(ctx context.Context, connection *amqp.Connection, queue string) (string, error) {
	channel, err := connection.Channel()
	if err != nil {
		return "", err
	}
	defer channel.Close() // the mark is back then
	const durable, autoDelete, noWait = true, false, false
	state, err := channel.QueueDeclare(queue, durable, autoDelete, false, noWait,
		amqp.Table{"x-queue-type": "classic", "x-max-length": 1, "x-overflow": "reject-publish"})
	if err != nil {
		return "", err
	}
	if state.Messages == 0 && state.Consumers == 0 {
		// Two may do so at once: the first message in the queue is the mark.
		message := amqp.Publishing{DeliveryMode: amqp.Transient, Body: []byte(rand.Text())}
		if err := channel.PublishWithContext(ctx, "", queue, false, false, message); err != nil {
			return "", err
		}
	}
	// Alone: while one has the first message in hand, another would read the second.
	const autoAck, exclusive, noLocal = false, true, false
	deliveries, err := channel.Consume(queue, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return "", err
	}
	first, ok := <-deliveries
	if !ok {
		return "", amqp.ErrClosed
	}
	return string(first.Body), nil
}

func isInUse(err error) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && strings.Contains(refused.Reason, "exclusive use")
}
