// Fleet has several worker processes count documents of the same customers at
// the same time, and shows that no count is given twice and none is skipped.
//
//	go run ./examples/fleet [-redis address] [-workers n] [-documents n]
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// The program ends with one of these.
const (
	succeeded = 0
	failed    = 1 // a count twice or skipped, or a worker that failed
	misused   = 2
)

var customers = []string{"archive", "bakery", "clinic", "dealer", "embassy"}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		signal.Ignore(os.Interrupt) // a terminal's goes to all processes; the parent's word counts
		os.Exit(work(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("redis", "", "the `address` of a Redis server (default: a miniredis of its own)")
	workers := flags.Int("workers", 8, "how many worker processes, 1 to 100")
	documents := flags.Int("documents", 20_000, "how many documents in all, 1 to 1000000")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return succeeded
	} else if err != nil {
		return misused
	}
	if flags.NArg() > 0 || *workers < 1 || *workers > 100 || *documents < 1 || *documents > 1_000_000 {
		fmt.Fprintln(stderr, "fleet: wrong arguments:", args)
		flags.Usage()
		return misused
	}

	// An interrupt ends the workers first and then deletes their keys.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	start := time.Now()
	counted, err := countTogether(ctx, *address, *workers, *documents, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "fleet:", err)
		return failed
	}
	fmt.Fprintf(stdout, "%d worker processes counted %d documents of %d customers in %.1f s.\n\n",
		*workers, *documents, len(counted.given), time.Since(start).Seconds())
	if !counted.report(stdout, *documents) {
		return failed
	}
	return succeeded
}

// countTogether starts the workers on one Redis, collects the counts that they
// were given, and leaves nothing behind.
func countTogether(ctx context.Context, address string, workers, documents int, stderr io.Writer) (_ *tally, err error) {
	if address == "" {
		server, err := miniredis.Run()
		if err != nil {
			return nil, fmt.Errorf("start miniredis: %w", err)
		}
		defer server.Close()
		address = server.Addr()
	}
	prefix := "fleet-" + rand.Text() // the server may have counts of its own
	client, store, err := open(address, prefix)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("redis at %s: %w", address, err)
	}
	defer func() { err = errors.Join(err, deleteCounts(client, store)) }()

	// One worker that fails ends all.
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	counted := newTally()
	stopShowing := counted.show(stderr, documents)
	defer stopShowing()
	var running sync.WaitGroup
	for number := range workers {
		share := documents / workers
		if number < documents%workers {
			share++
		}
		running.Go(func() {
			if err := runWorker(ctx, number, share, address, prefix, counted); err != nil {
				end(err)
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return counted, nil
}

// open returns a store as every process of the fleet has it, and its client.
func open(address, prefix string) (*redis.Client, *priority.RedisStore, error) {
	logging.Disable() // what go-redis would write to stderr is in its errors too
	client := redis.NewClient(&redis.Options{Addr: address})
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{
		Prefix:  prefix,
		Timeout: 10 * time.Second, // on a busy machine a worker may wait longer than usual
	})
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return client, store, nil
}

func deleteCounts(client *redis.Client, store *priority.RedisStore) error {
	for _, customer := range customers {
		if err := store.Reset(context.Background(), customer); err != nil {
			return fmt.Errorf("delete this fleet's keys: %w", err)
		}
	}
	return nil
}
