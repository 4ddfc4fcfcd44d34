package priorityrabbitmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// declare creates the queues where they do not exist.
func (q *Queue) declare(channel *amqp.Channel, major int) error {
	if q.options.Quorum && major < 4 {
		return errors.New("a quorum queue has no priorities before RabbitMQ 4.0: take a classic one")
	}
	tables := make(map[string]amqp.Table)
	if !q.own {
		tables[q.name] = q.arguments()
	}
	// Always set the type: the default differs between virtual hosts.
	tables[q.deadQueue()] = amqp.Table{"x-queue-type": "classic"}
	if q.options.Quorum {
		tables[q.deadQueue()] = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": -1} // the default, 20, would drop a dead letter after 20 looks
	}
	for _, delay := range q.options.Backoff {
		// Only a quorum queue keeps a document until the next queue has it.
		tables[q.retryQueue(delay)] = amqp.Table{
			"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-message-ttl": max(1, delay.Milliseconds()),
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": q.name, "x-dead-letter-strategy": "at-least-once",
		}
	}
	for name, table := range tables {
		const durable, autoDelete, exclusive, noWait = true, false, false, false
		if _, err := channel.QueueDeclare(name, durable, autoDelete, exclusive, noWait, table); err != nil {
			return fmt.Errorf("declare %s: %w", name, err)
		}
	}
	return nil
}

// arguments returns the arguments of the main queue.
func (q *Queue) arguments() amqp.Table {
	table := amqp.Table{"x-queue-type": "classic", "x-overflow": "reject-publish"} // the default drops the first levels first
	if q.options.Quorum {
		const deliveries = 100 // by default the document is dropped after 20
		table = amqp.Table{
			"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-delivery-limit": deliveries,
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": q.deadQueue(), "x-dead-letter-strategy": "at-least-once",
		}
	} else {
		table["x-max-priority"] = q.options.MaxPriority
	}
	if q.options.MaxLength > 0 {
		table["x-max-length"] = q.options.MaxLength
	}
	return table
}

// declares reports whether a message is for a queue that declare creates.
func (q *Queue) declares(exchange, key string) bool {
	return exchange == "" && (key == q.name && !q.own || key == q.deadQueue() || strings.HasPrefix(key, q.name+".retry."))
}

func (q *Queue) retryQueue(delay time.Duration) string {
	return fmt.Sprint(q.name, ".retry.", delay)
}

func (q *Queue) deadQueue() string { return q.name + ".dead" }

// Remove deletes the queues that New or Open has declared, and all that is in them.
func (q *Queue) Remove(ctx context.Context) error {
	l, err := q.consuming.open(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	defer hurry(l.connection)()
	names := []string{q.deadQueue()}
	if !q.own {
		names = append(names, q.name)
	}
	for _, delay := range q.options.Backoff {
		names = append(names, q.retryQueue(delay))
	}
	for _, name := range names {
		_, deleted := l.QueueDelete(name, false, false, false)
		err = cmp.Or(err, deleted)
	}
	return err
}
