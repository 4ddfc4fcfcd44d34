package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/queue"
	priorityrabbitmq "github.com/docpriority/priority/queue/rabbitmq"
	amqp "github.com/rabbitmq/amqp091-go"
)

// either is the example or, with -team, the program of a team with a connection, an
// exchange and a loop of its own.
func either() *program.Example {
	e, own := example(), false
	open, flags := e.Open, e.Flags
	var losses flag.Value
	e.Flags = func(set *flag.FlagSet) {
		flags(set)
		losses = set.Lookup("losses").Value
		set.BoolVar(&own, "team", false, "")
	}
	e.Open = func(ctx context.Context, c *program.Config) (program.Queue, error) {
		if !own {
			return open(ctx, c)
		}
		t := &team{config: c, options: priorityrabbitmq.Options{Limit: c.Limit, Backoff: c.Backoff, Losses: losses.(flag.Getter).Get().(int), Quorum: quorum, Logger: c.Logger}}
		_, err := t.documents(ctx)
		return t, err
	}
	return e
}

// team is a program as docs/queues/rabbitmq.md begins with.
type team struct {
	config  *program.Config
	options priorityrabbitmq.Options

	mutex      sync.Mutex
	connection *amqp.Connection
	queue      *priorityrabbitmq.Queue
}

// documents returns the queue on a connection that is not lost, as far as is known.
func (t *team) documents(ctx context.Context) (*priorityrabbitmq.Queue, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.connection != nil && !t.connection.IsClosed() {
		return t.queue, nil
	}
	connection, err := amqp.DialConfig(t.config.URL, amqp.Config{Heartbeat: 10 * time.Second, Dial: amqp.DefaultDial(5 * time.Second)})
	if err != nil {
		return nil, err
	}
	queue, err := t.declare(ctx, connection)
	if err != nil {
		return nil, errors.Join(err, connection.CloseDeadline(time.Now().Add(time.Second)))
	}
	t.connection, t.queue = connection, queue
	return queue, nil
}

func (t *team) declare(ctx context.Context, connection *amqp.Connection) (*priorityrabbitmq.Queue, error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	defer channel.Close()
	name := t.config.Name
	arguments := amqp.Table{"x-queue-type": "classic", "x-max-priority": queue.RabbitMQMaxPriority(t.config.Store.Last())}
	if quorum {
		arguments = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 100}
	}
	err = channel.ExchangeDeclare(name+" uploads", amqp.ExchangeTopic, true, false, false, false, nil)
	if err == nil {
		_, err = channel.QueueDeclare(name, true, false, false, false, arguments)
	}
	if err == nil {
		err = channel.QueueBind(name, "pdf.*", name+" uploads", false, nil)
	}
	if err != nil {
		return nil, err
	}
	return priorityrabbitmq.New(ctx, connection, name, t.config.Store, &t.options)
}

func (t *team) Produce(ctx context.Context, customer, id string, body []byte) error {
	message := amqp.Publishing{ContentType: "application/pdf", Body: body}
	for {
		documents, err := t.documents(ctx)
		if err == nil {
			err = documents.Publish(ctx, t.config.Name+" uploads", "pdf.new", message, priorityrabbitmq.Document{Customer: customer, ID: id})
			if !errors.Is(err, amqp.ErrClosed) {
				return err
			}
		}
		if !again(ctx) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (t *team) Work(ctx context.Context, process program.Process) error {
	var workers sync.WaitGroup
	for range t.config.Workers {
		workers.Go(func() {
			for ctx.Err() == nil {
				if err := t.consume(ctx, process); err != nil {
					t.config.Logger.Warn("a worker connects again", "error", err)
					again(ctx)
				}
			}
		})
	}
	workers.Wait()
	return nil
}

func (t *team) consume(ctx context.Context, process program.Process) error {
	documents, err := t.documents(ctx)
	if err != nil {
		return err
	}
	t.mutex.Lock()
	channel, err := t.connection.Channel()
	t.mutex.Unlock()
	if err != nil {
		return err
	}
	defer channel.Close()
	if err := channel.Qos(1, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.Consume(t.config.Name, "worker", false, false, false, false, nil)
	if err != nil {
		return err
	}
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		_ = channel.Cancel("worker", false)
	})
	defer func() {
		if !stop() {
			<-cancelled
		}
	}()
	for delivery := range deliveries {
		err := documents.Handle(context.WithoutCancel(ctx), delivery, func(ctx context.Context, delivery amqp.Delivery) error {
			if delivery.ContentType != "application/pdf" || delivery.RoutingKey != "pdf.new" {
				return fmt.Errorf("it came with the routing key %q, as %q", delivery.RoutingKey, delivery.ContentType)
			}
			document := priorityrabbitmq.Of(delivery)
			return process(ctx, document.Customer, document.ID, delivery.Body)
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (t *team) Dead(ctx context.Context) ([]string, error) {
	queue, err := t.documents(ctx)
	if err != nil {
		return nil, err
	}
	return documents{queue}.Dead(ctx)
}

func (t *team) Remove(context.Context) error { return nil }

func (t *team) Close() error {
	return t.connection.CloseDeadline(time.Now().Add(5 * time.Second))
}

// again waits for the next try.
func again(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(300 * time.Millisecond):
		return true
	}
}
