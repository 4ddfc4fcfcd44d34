// Fleet has several worker processes count documents of the same customers at
// the same time, and shows that no count is given twice and none is skipped.
//
//	go run ./examples/fleet [-redis address] [-workers n] [-documents n]
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
)

var customers = []string{"archive", "bakery", "clinic", "dealer", "embassy"}

func main() {
	if len(os.Args) == 6 && os.Args[1] == "worker" {
		signal.Ignore(os.Interrupt) // a terminal's goes to all processes; the parent's word counts
		exit(work(os.Args[2:], os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	address := flags.String("redis", "", "the `address` of a Redis server (default: a miniredis of its own)")
	workers := flags.Int("workers", 8, "how many worker processes")
	documents := flags.Int("documents", 20_000, "how many documents in all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *workers < 1 || *documents < 1 {
		return fmt.Errorf("wrong arguments: %q", args)
	}
	if *address == "" {
		server, err := miniredis.Run()
		if err != nil {
			return fmt.Errorf("start miniredis: %w", err)
		}
		defer server.Close()
		*address = server.Addr()
	}
	prefix := "fleet-" + rand.Text() // the server may have counts of its own
	client, store, err := open(*address, prefix)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis at %s: %w", *address, err)
	}
	defer func() { // when all workers have ended
		for _, customer := range customers {
			err = errors.Join(err, store.Reset(context.WithoutCancel(ctx), customer))
		}
	}()

	start := time.Now()
	ctx, end := context.WithCancel(ctx) // one worker that fails ends all
	defer end()
	told, failed := make(chan []byte), make(chan error)
	for number := range *workers {
		share := (*documents + *workers - 1 - number) / *workers
		go func() {
			lines, err := startWorker(ctx, *address, prefix, number, share)
			told <- lines
			failed <- err
		}()
	}
	var lines bytes.Buffer
	for range *workers {
		lines.Write(<-told)
		if failure := <-failed; failure != nil {
			end()
			err = errors.Join(err, failure)
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d worker processes counted %d documents in %.1f s.\n\n", *workers, *documents, time.Since(start).Seconds())
	return report(out, lines.String(), *documents)
}

// open returns a store as every process of the fleet has it, and its client.
func open(address, prefix string) (*redis.Client, *priority.RedisStore, error) {
	client := redis.NewClient(&redis.Options{Addr: address})
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{
		Prefix:  prefix,
		Timeout: 10 * time.Second, // on a busy machine a worker may wait longer than usual
	})
	return client, store, err
}

// startWorker runs this program as a worker, which is a process of its own, and returns
// what it has printed.
func startWorker(ctx context.Context, address, prefix string, number, documents int) ([]byte, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	command := exec.CommandContext(ctx, program, "worker", address, prefix, strconv.Itoa(number), strconv.Itoa(documents))
	// Nothing is written to the worker's input. That it ends tells the worker to
	// end too: after an interrupt, and when this process dies, however it dies.
	lifeline, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("worker %d: %w", number, err)
	}
	defer lifeline.Close()
	command.Cancel = lifeline.Close
	command.WaitDelay = 15 * time.Second // then it is killed; longer than any call takes
	var lines, complaint bytes.Buffer
	command.Stdout, command.Stderr = &lines, &complaint
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("worker %d: %w %s", number, err, strings.TrimSpace(complaint.String()))
	}
	return lines.Bytes(), nil
}

// work is what a worker process does: it counts documents, one after the other,
// and prints a line "customer count" for each.
func work(args []string, stdin io.Reader, out io.Writer) error {
	number, wrongNumber := strconv.Atoi(args[2])
	documents, wrongDocuments := strconv.Atoi(args[3])
	client, store, err := open(args[0], args[1])
	if err := errors.Join(wrongNumber, wrongDocuments, err); err != nil {
		return err
	}
	defer client.Close()
	var told atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		told.Store(true)
	}()
	for i := range documents {
		if told.Load() {
			return errors.New("told to end")
		}
		customer := customers[(number+i)%len(customers)]
		decision, err := store.Next(context.Background(), customer)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, customer, decision.Count); err != nil {
			return err
		}
	}
	return nil
}

// report prints a line for each customer, and returns an error unless the counts of each
// are 0, -1, -2 and so on, each given once, for all the documents.
func report(out io.Writer, lines string, documents int) error {
	given := make(map[string][]int)
	counted := 0
	for line := range strings.Lines(lines) {
		customer, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		count, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("a worker printed %q, not a customer and a count", line)
		}
		given[customer] = append(given[customer], count)
		counted++
	}
	if counted != documents {
		return fmt.Errorf("the workers were to count %d documents and counted %d", documents, counted)
	}
	fmt.Fprintln(out, "customer  documents   from      to  each given once")
	var faults []error
	for _, customer := range slices.Sorted(maps.Keys(given)) {
		counts := given[customer]
		slices.SortFunc(counts, func(a, b int) int { return b - a })
		once := "yes"
		for i, count := range counts {
			if count != -i {
				once = "no"
				faults = append(faults, fmt.Errorf("%s was given %d where %d was next: a count twice, or skipped", customer, count, -i))
				break
			}
		}
		fmt.Fprintf(out, "%-8s  %9d  %5d  %6d  %s\n", customer, len(counts), counts[0], counts[len(counts)-1], once)
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	fmt.Fprint(out, "\nNo count was given twice or skipped: the n documents of a customer were given\n"+
		"0, -1 … -(n-1), each once, whichever process counted them.\n")
	return nil
}
