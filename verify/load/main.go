// Command load puts a mixed load on a Redis server of this machine and reports
// what it cost and whether the counts are right in the end. From the root of
// the repository:
//
//	go run ./verify/load -redis 127.0.0.1:6379 -duration 30s
//
// Every caller calls again as soon as it is answered, so the latencies are those
// at the given concurrency and at the greatest rate that it reaches. Of a hundred
// calls 75 are Next, and 5 each NextN, NextEach, Submit, Done and Peek. Few of the customers
// have most of the documents (Zipf, exponent 1.1).
//
// The client has the settings of a plain go-redis client. A URL can change them:
// redis://127.0.0.1:6379?pool_size=64. The keys have a prefix of their own and
// are removed in the end.
//
// The exit status is 1 if documents were lost or counted twice, or if goroutines
// or connections were left, and 2 if the command line is wrong.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	logging.Disable() // the report has the errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal a second one ends the command at once.
	context.AfterFunc(ctx, stop)
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The command's exit statuses.
const (
	statusOK = iota
	statusFailed
	statusUsage
)

// command runs the command line and returns the exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, asJSON, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		return statusUsage
	}
	if isTerminal(stderr) {
		cfg.progress = stderr
	}
	report, err := run(ctx, cfg)
	if report != nil {
		if asJSON {
			out := json.NewEncoder(stdout)
			out.SetIndent("", "  ")
			err = errors.Join(err, out.Encode(report))
		} else {
			err = errors.Join(err, report.write(stdout))
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "load:", err)
		return statusFailed
	}
	if !report.OK {
		return statusFailed
	}
	return statusOK
}

// config says what load is put on what.
type config struct {
	redis        string
	cluster      bool
	autopipeline bool
	fallback     bool
	timeout      time.Duration

	duration    time.Duration
	calls       int64 // 0: no limit
	concurrency int
	customers   int

	prefix   string        // of the keys; empty: a new one
	grace    time.Duration // what goroutines and connections may take to end
	progress io.Writer     // nil: none is shown
}

// parse reads the command line. It has told the user of an error that it returns.
func parse(args []string, stderr io.Writer) (cfg config, asJSON bool, err error) {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.redis, "redis", "", "the server's `address`: host:port, or a redis:// URL with the client's options")
	flags.BoolVar(&cfg.cluster, "cluster", false, "the server is a node of a Redis Cluster")
	flags.BoolVar(&cfg.autopipeline, "autopipeline", false, "pipeline the calls of concurrent callers (go-redis's AutoPipeliner)")
	flags.BoolVar(&cfg.fallback, "fallback", false, "answer from memory while the server does not")
	flags.DurationVar(&cfg.timeout, "timeout", 250*time.Millisecond, "the store's timeout")
	flags.DurationVar(&cfg.duration, "duration", 30*time.Second, "how long to call")
	flags.Int64Var(&cfg.calls, "calls", 0, "end after so many calls if that comes first (0: no limit)")
	flags.IntVar(&cfg.concurrency, "concurrency", 64, "how many callers call at once")
	flags.IntVar(&cfg.customers, "customers", 10_000, "how many customers there are")
	flags.BoolVar(&asJSON, "json", false, "report in JSON")
	if err := flags.Parse(args); err != nil {
		return cfg, asJSON, err
	}
	cfg.grace = 15 * time.Second // more than a go-redis client's own timeouts
	if err := cfg.check(flags.Args()); err != nil {
		fmt.Fprintf(stderr, "load: %v\n", err)
		flags.Usage()
		return cfg, asJSON, err
	}
	return cfg, asJSON, nil
}

func (c config) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("what is %q?", rest[0])
	case c.redis == "":
		return errors.New("-redis is missing: the address of a server")
	case c.timeout <= 0:
		return fmt.Errorf("-timeout is %v, and must be more than 0", c.timeout)
	case c.duration <= 0:
		return fmt.Errorf("-duration is %v, and must be more than 0", c.duration)
	case c.calls < 0:
		return fmt.Errorf("-calls is %d, and may not be less than 0", c.calls)
	case c.concurrency < 1:
		return fmt.Errorf("-concurrency is %d, and must be at least 1", c.concurrency)
	case c.customers < 1:
		return fmt.Errorf("-customers is %d, and must be at least 1", c.customers)
	}
	_, err := c.server()
	return err
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
