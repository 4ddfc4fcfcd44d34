package priorityrabbitmq

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// declare creates the queues for delays and dead letters where they do not exist.
func (q *Queue) declare() error {
	version, _ := q.connection.Properties["version"].(string)
	number, _, _ := strings.Cut(version, ".")
	if major, _ := strconv.Atoi(number); q.options.Quorum && major < 4 {
		return fmt.Errorf("server %s: a quorum queue has no priorities before RabbitMQ 4.0: take a classic one", version)
	}
	// Always set the type: the default differs between virtual hosts.
	tables := map[string]amqp.Table{q.deadQueue(): {"x-queue-type": "classic"}}
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
	channel, err := q.connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	for name, table := range tables {
		const durable, autoDelete, exclusive, noWait = true, false, false, false
		if _, err := channel.QueueDeclare(name, durable, autoDelete, exclusive, noWait, table); err != nil {
			return fmt.Errorf("server %s: declare %s: %w", version, name, err)
		}
	}
	return nil
}

func (q *Queue) retryQueue(delay time.Duration) string {
	return fmt.Sprint(q.name, ".retry.", delay)
}

func (q *Queue) deadQueue() string { return q.name + ".dead" }
