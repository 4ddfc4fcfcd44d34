// Package program is what the programs of all queues have in common: the command
// line, the store, and a stand-in for the work on a document.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/fallback"
	"github.com/redis/go-redis/v9"
)

// Queue is a fleet's queue with levels, as main.go of each program makes it of its module.
type Queue interface {
	// Produce gives a customer's document its level and puts it into the queue. It
	// goes on until the queue has it for certain, or the context ends.
	Produce(ctx context.Context, customer, document string, body []byte) error

	// Work has process work on documents until the context ends, and on those that
	// it has in hand to their end. It goes on through every trouble of the queue.
	Work(ctx context.Context, process Process) error

	// Dead returns the documents that were given up: each has failed as often as a
	// document may.
	Dead(ctx context.Context) ([]string, error)

	// Remove deletes the queue and all that is in it.
	Remove(ctx context.Context) error

	// Close gives back what Open took, and forgets no document.
	Close() error
}

// Process works on a document. With an error it is tried again, some time later.
type Process = func(ctx context.Context, customer, document string, body []byte) error

// Config is how a queue is opened. The fields below Store are options that each
// queue has under the same names.
type Config struct {
	URL   string
	Store priority.Store

	Name    string          // of the queue
	Workers int             // documents at a time in this process
	Limit   time.Duration   // how long a document may take
	Backoff []time.Duration // how long a document waits after its first failure, after its second, …; then it is given up
	Logger  *slog.Logger
}

// Example is one queue's program.
type Example struct {
	Queue string                                            // "RabbitMQ"
	Start func(ctx context.Context) (*server.Server, error) // starts a server of its own
	Call  func(level, last priority.Level) string           // what a level is called in the queue
	Open  func(ctx context.Context, config *Config) (Queue, error)
	Flags func(flags *flag.FlagSet) // adds the queue's own; nil: none

	Forgets  time.Duration // how long before its end a server that is killed may have confirmed what it forgets; 0: never
	Confirms time.Duration // how long after the end of a document its worker may tell the server; 0: at once
}

// Main runs the program's command and ends the process.
func Main(example *Example) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Run(ctx, example, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// line is a command line: see usage.
type line struct {
	Config
	command   string
	counts    string // the address of the Redis with the fleet's numbers
	turns     int
	customer  string
	waits     string // a file
	documents []string
}

// Parse returns what flags say of a queue.
func Parse(example *Example, flags ...string) (*Config, error) {
	parsed, err := parse(example, flags, io.Discard)
	return &parsed.Config, err
}

func parse(example *Example, args []string, help io.Writer) (*line, error) {
	l := new(line)
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		l.command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet(example.Queue, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it
	l.Logger = slog.Default()
	flags.StringVar(&l.URL, "url", "", "the `address` of the queue's server; without a command: of its own unless set")
	flags.StringVar(&l.Name, "name", "documents", "the queue's `name`")
	flags.IntVar(&l.Workers, "workers", 4, "work: documents at a time")
	flags.DurationVar(&l.Limit, "limit", 10*time.Minute, "work: how long a document may take")
	l.Backoff = []time.Duration{time.Second, 10 * time.Second, time.Minute}
	flags.Func("backoff", "how long a document waits after each failure, before it is given up (default 1s,10s,1m)", func(text string) (err error) {
		l.Backoff, err = durations(text)
		return err
	})
	flags.StringVar(&l.counts, "redis", "", "produce, work: the `address` of the Redis with the fleet's counts")
	flags.IntVar(&l.turns, "turns", 0, "how many `levels` more there are for floods to take turns in, the same for all")
	flags.StringVar(&l.customer, "customer", "acme", "produce: whose documents")
	flags.StringVar(&l.waits, "waits", "", "without a command: also write each document's wait into the CSV `file`")
	if example.Flags != nil {
		example.Flags(flags)
	}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(help)
		fmt.Fprintf(help, usage, example.Queue, strings.ToLower(example.Queue))
		flags.PrintDefaults()
	}
	l.documents = flags.Args()
	return l, err
}

// Run runs a command line.
func Run(ctx context.Context, example *Example, args []string, out io.Writer) error {
	l, err := parse(example, args, out)
	if err != nil {
		return err
	}
	switch l.command {
	case "":
		return demonstrate(ctx, example, l, out)
	case "produce", "work":
	default:
		return fmt.Errorf("unknown command %q: want produce, work, or none; -h says more", l.command)
	}
	if l.URL == "" {
		return fmt.Errorf("%s needs -url, the address of the queue's server", l.command)
	}
	if l.counts == "" {
		return fmt.Errorf("%s needs -redis, the address of the Redis with the fleet's counts", l.command)
	}
	store, done, err := openStore(l.counts, l.turns)
	if err != nil {
		return err
	}
	l.Store = store
	queue, err := example.Open(ctx, &l.Config)
	if err != nil {
		if l.command == "work" && ctx.Err() != nil {
			err = nil // it was to end before it had anything in hand
		}
		return errors.Join(err, done())
	}
	if l.command == "produce" {
		for _, document := range l.documents {
			if err = queue.Produce(ctx, l.customer, document, nil); err != nil {
				break
			}
		}
	} else {
		err = queue.Work(ctx, standIn(out))
	}
	return errors.Join(err, queue.Close(), done())
}

const usage = `A producer and a consumer for %[1]s, and a demonstration of both.

    %[2]s                                        shows who waits how long, and ends
    %[2]s produce -url … -redis … DOCUMENT...    puts documents into the queue
    %[2]s work -url … -redis …                   works on them until Ctrl-C

`

func durations(text string) ([]time.Duration, error) {
	var all []time.Duration
	for _, one := range strings.Split(text, ",") {
		parsed, err := time.ParseDuration(one)
		if err != nil {
			return nil, err
		}
		all = append(all, parsed)
	}
	return all, nil
}

// openStore returns the fleet's store, which goes on answering while Redis is away.
func openStore(url string, turns int) (store priority.Store, done func() error, err error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(options)
	counts, err := priority.NewRedisStore(client, &priority.RedisOptions{Policy: priority.Policy{Turns: turns}})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	answering, err := fallback.New(counts, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	done = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return errors.Join(answering.Close(ctx), client.Close())
	}
	return answering, done, nil
}

// Event is what a consumer tells of a document: a line of JSON.
type Event struct {
	At       time.Time
	What     string // began, served, failed
	Customer string
	Document string
}

// Events of a document.
const (
	Began  = "began"
	Served = "served"
	Failed = "failed"
)

// Fails is the body of a document that fails each time that it is worked on.
const Fails = "fails"

// standIn is in the place of real work: a document takes as long as its body says.
func standIn(out io.Writer) Process {
	lines := json.NewEncoder(out) // one Write a line, at once
	var mutex sync.Mutex
	tell := func(what, customer, document string) error {
		mutex.Lock()
		defer mutex.Unlock()
		return lines.Encode(Event{time.Now(), what, customer, document})
	}
	return func(ctx context.Context, customer, document string, body []byte) error {
		if err := tell(Began, customer, document); err != nil {
			return err
		}
		takes, _ := time.ParseDuration(string(body))
		select {
		case <-ctx.Done():
		case <-time.After(takes):
		}
		err := ctx.Err()
		if string(body) == Fails {
			err = errors.New("this document fails each time")
		}
		if err != nil {
			return errors.Join(err, tell(Failed, customer, document))
		}
		return tell(Served, customer, document)
	}
}
