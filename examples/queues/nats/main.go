// Nats puts documents into a stream of NATS JetStream with a subject for each level, and
// serves them. With -h it says how to produce and to work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	prioritynats "github.com/docpriority/priority/queue/nats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() { program.Main(example()) }

func example() *program.Example {
	var own prioritynats.Options
	return &program.Example{
		Queue:   "NATS",
		Forgets: 500 * time.Millisecond, // measured with one server of Debian's 2.9.10; of 2.10.29 it is nothing
		Start:   server.StartNATS,
		Call:    func(level, _ priority.Level) string { return fmt.Sprint("subject documents.", level) },
		Flags: func(flags *flag.FlagSet) {
			flags.DurationVar(&own.AckWait, "ack-wait", 0, "a worker that is not heard of for so long is lost (default 30s)")
			flags.BoolVar(&own.Strict, "strict", false, "always the first level that has documents; by weight otherwise")
		},
		Open: func(ctx context.Context, c *program.Config) (program.Queue, error) {
			connection, err := nats.Connect(c.URL, prioritynats.ConnectOptions(c.Logger)...)
			if err != nil {
				return nil, err
			}
			js, _ := jetstream.New(connection) // an error is of its options: there are none
			own.Name, own.Workers, own.Limit, own.Backoff, own.Logger = c.Name, c.Workers, c.Limit, c.Backoff, c.Logger
			q, err := prioritynats.Open(ctx, js, c.Store, &own)
			return &program.Functions{
				OnProduce: func(ctx context.Context, customer, document string, body []byte) error {
					_, err := q.Publish(ctx, customer, document, &nats.Msg{Data: body})
					return err
				},
				OnWork: func(ctx context.Context, process program.Process) error {
					return q.Work(ctx, func(ctx context.Context, message jetstream.Msg) error {
						customer, document := prioritynats.Identity(message.Headers())
						return process(ctx, customer, document, message.Data())
					})
				},
				OnDead: program.IDs(q.Dead, func(l prioritynats.Letter) string { return l.Document }),
				OnRemove: func(ctx context.Context) error {
					return errors.Join(js.DeleteStream(ctx, c.Name), js.DeleteStream(ctx, c.Name+"-dead"))
				},
				OnClose: connection.Close,
			}, err
		},
	}
}
