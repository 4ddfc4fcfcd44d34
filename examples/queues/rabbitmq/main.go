// Rabbitmq shows who waits how long during a flood. With -h it says how to produce and work.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
	priorityrabbitmq "github.com/docpriority/priority/queue/rabbitmq"
	amqp "github.com/rabbitmq/amqp091-go"
)

func main() { program.Main(example()) }

func example() *program.Example {
	var options priorityrabbitmq.Options
	return &program.Example{
		Queue: "RabbitMQ", Start: server.StartRabbitMQ, Forgets: time.Second, // as a classic queue does while nobody publishes
		Call: func(level, last priority.Level) string {
			return fmt.Sprint("priority ", queue.RabbitMQ(level, last, queue.RabbitMQMaxPriority(last)))
		},
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&options.Losses, "losses", 10, "work: a document that was lost with its worker, or its connection, as often is given up")
			flags.BoolVar(&options.Quorum, "quorum", false, "a replicated queue, of RabbitMQ 4.0 or later")
		},
		Open: func(ctx context.Context, c *program.Config) (program.Queue, error) {
			options.Workers, options.Limit, options.Backoff, options.Logger = c.Workers, c.Limit, c.Backoff, c.Logger
			opened, err := priorityrabbitmq.Open(ctx, c.URL, c.Name, c.Store, &options)
			return documents{opened}, err
		},
	}
}

type documents struct{ *priorityrabbitmq.Queue }

func (d documents) Produce(ctx context.Context, customer, id string, body []byte) error {
	document := priorityrabbitmq.Document{Customer: customer, ID: id, Cost: float64(len(body))}
	return d.Publish(ctx, "", d.Name(), amqp.Publishing{Body: body}, document)
}

func (d documents) Work(ctx context.Context, process program.Process) error {
	return d.Queue.Work(ctx, func(ctx context.Context, delivery amqp.Delivery) error {
		document := priorityrabbitmq.Of(delivery)
		return process(ctx, document.Customer, document.ID, delivery.Body)
	})
}

func (d documents) Dead(ctx context.Context) (ids []string, err error) {
	letters, err := d.Queue.Dead(ctx)
	for _, letter := range letters {
		ids = append(ids, letter.Document)
	}
	return ids, err
}
