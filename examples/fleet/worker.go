package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// runWorker starts this program again as a worker, which is a process of its
// own, and adds what it prints to the tally until it ends.
func runWorker(ctx context.Context, number, documents int, address, prefix string, counted *tally) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	command := exec.CommandContext(ctx, program, "worker",
		"-redis", address, "-prefix", prefix, "-number", strconv.Itoa(number), "-documents", strconv.Itoa(documents))
	var complaint bytes.Buffer
	command.Stderr = &complaint
	// Nothing is written to the worker's input. That it ends tells the worker to
	// end too: after an interrupt, and when this process dies, however it dies.
	lifeline, err := command.StdinPipe()
	if err != nil {
		return fmt.Errorf("worker %d: %w", number, err)
	}
	defer lifeline.Close()
	command.Cancel = lifeline.Close
	command.WaitDelay = 15 * time.Second // then it is killed; longer than any call takes
	output, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("worker %d: %w", number, err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("worker %d: %w", number, err)
	}
	bad := counted.read(output)
	_, _ = io.Copy(io.Discard, output) // so that the worker is not stuck if a line was bad
	if err := command.Wait(); err != nil {
		return fmt.Errorf("worker %d: %w %s", number, err, strings.TrimSpace(complaint.String()))
	}
	if bad != nil {
		return fmt.Errorf("worker %d: %w", number, bad)
	}
	return nil
}

// work is what a worker process does: it counts documents, one after the other,
// and prints a line "customer count" for each.
func work(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("redis", "", "the address of the Redis server")
	prefix := flags.String("prefix", "", "the fleet's prefix")
	number := flags.Int("number", 0, "which worker this is")
	documents := flags.Int("documents", 0, "how many documents to count")
	if err := flags.Parse(args); err != nil {
		return misused
	}
	// The parent says when to end, by its end of stdin, and deletes the keys when
	// no worker has a call under way any more.
	var told atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		told.Store(true)
	}()

	client, store, err := open(*address, *prefix)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return failed
	}
	defer client.Close()
	out := bufio.NewWriterSize(stdout, 512) // small, so that the parent sees them soon
	for i := range *documents {
		if told.Load() {
			fmt.Fprintln(stderr, "told to end")
			return failed
		}
		customer := customers[(*number+i)%len(customers)]
		decision, err := store.Next(context.Background(), customer)
		if err == nil {
			_, err = fmt.Fprintln(out, customer, decision.Count)
		}
		if err != nil {
			fmt.Fprintln(stderr, err)
			return failed
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(stderr, err)
		return failed
	}
	return succeeded
}
