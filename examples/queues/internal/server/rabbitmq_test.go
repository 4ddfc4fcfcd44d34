package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/redistest"
	amqp "github.com/rabbitmq/amqp091-go"
)

// The tests of queues are about crashes that RabbitMQ recovers from.
func TestAQuorumQueueOutlivesACrashRightAfterItsDeclaration(t *testing.T) {
	s, err := StartRabbitMQ(t.Context())
	if missing := (*MissingError)(nil); errors.As(err, &missing) {
		redistest.Skip(t, err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	const queue = "retry"
	channel := openChannel(t, s)
	if _, err := channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	channel = openChannel(t, s)
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	confirm, err := channel.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{})
	if err == nil {
		_, err = confirm.WaitContext(ctx)
	}
	if err != nil {
		t.Errorf("the queue takes nothing: %v", err)
	}
}

func openChannel(t *testing.T, s *Server) *amqp.Channel {
	t.Helper()
	connection, err := amqp.Dial(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.CloseDeadline(time.Now()) })
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}
