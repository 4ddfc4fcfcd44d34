package main

import (
	"context"
	"fmt"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
	amqp "github.com/rabbitmq/amqp091-go"
)

// documents is a durable queue of RabbitMQ with a priority for each level.
type documents struct {
	channel     *amqp.Channel
	name        string
	last        priority.Level // of all customers: store.Last()
	maxPriority uint8
}

// open declares the queue. Producers and consumers have to declare it alike: the
// x-max-priority of a queue that exists cannot be changed.
func open(channel *amqp.Channel, name string, last priority.Level) (*documents, error) {
	d := &documents{channel, name, last, queue.RabbitMQMaxPriority(last)}
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	_, err := channel.QueueDeclare(name, durable, autoDelete, exclusive, noWait, amqp.Table{
		"x-max-priority": d.maxPriority,
	})
	if err != nil {
		return nil, fmt.Errorf("declare %s: %w", name, err)
	}
	if err := channel.Confirm(noWait); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	return d, nil
}

// produce counts a customer's document and puts it into the queue with its level.
func (d *documents) produce(ctx context.Context, store priority.Store, customer, document string) error {
	decision, err := store.Next(ctx, customer)
	if err != nil {
		return err
	}
	return d.publish(ctx, decision.Level, document)
}

// publish returns when RabbitMQ has the document.
func (d *documents) publish(ctx context.Context, level priority.Level, document string) error {
	const exchange, mandatory, immediate = "", false, false
	confirm, err := d.channel.PublishWithDeferredConfirmWithContext(ctx, exchange, d.name, mandatory, immediate, amqp.Publishing{
		Priority:     queue.RabbitMQ(level, d.last, d.maxPriority),
		DeliveryMode: amqp.Persistent,
		Body:         []byte(document),
	})
	if err != nil {
		return fmt.Errorf("publish %s: %w", document, err)
	}
	if confirmed, err := confirm.WaitContext(ctx); err != nil {
		return fmt.Errorf("publish %s: %w", document, err)
	} else if !confirmed {
		return fmt.Errorf("publish %s: RabbitMQ refused it", document)
	}
	return nil
}

// consume has process work on one document at a time, until the context ends. If
// process fails, the document goes back to the queue and keeps its priority.
func (d *documents) consume(ctx context.Context, process func(document string) error) error {
	// What was sent to a consumer is out of the queue's order: so one at a time.
	if err := d.channel.Qos(1, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	const autoAck, exclusive, noLocal, noWait = false, false, false, false
	deliveries, err := d.channel.ConsumeWithContext(ctx, d.name, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", d.name, err)
	}
	for delivery := range deliveries {
		if process(string(delivery.Body)) == nil {
			err = delivery.Ack(false)
		} else {
			err = delivery.Nack(false, true)
		}
		if err != nil {
			return fmt.Errorf("acknowledge to %s: %w", d.name, err)
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("RabbitMQ ended the consumer of %s", d.name)
	}
	return nil
}
