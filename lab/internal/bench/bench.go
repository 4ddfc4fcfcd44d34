// Package bench measures the module beside its peers, and its own calls beside each other,
// on real Redis servers that it starts and ends itself.
//
// All contenders take turns in random order. A figure is the median over the rounds, with
// the least and the most.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/docpriority/priority/internal/redistest"
)

// Options says what is measured.
type Options struct {
	Tables []string // of Tables
	Rounds int      // that count; one before them does not
	Pin    bool     // redis-server has a CPU of its own
}

// tables are what can be measured, in the order in which it is.
var tables = []struct {
	name    string
	measure func(context.Context, *bench) (*report, error)
}{
	{"peers", measurePeers},
	{"scripts", measureScripts},
}

// Tables returns the names of what can be measured.
func Tables() []string {
	names := make([]string, len(tables))
	for i, table := range tables {
		names[i] = table.name
	}
	return names
}

// Validate returns an error that says what is wrong, or nil.
func (o Options) Validate() error {
	for _, name := range o.Tables {
		if !slices.Contains(Tables(), name) {
			return fmt.Errorf("there is no table %q; there are %s", name, strings.Join(Tables(), ", "))
		}
	}
	switch {
	case o.Rounds < 1:
		return fmt.Errorf("%d rounds are fewer than 1", o.Rounds)
	case o.Pin && !CanPin():
		return errors.New("to give redis-server a CPU of its own needs taskset and at least 2 CPUs")
	}
	return nil
}

// Run measures, and prints each table in Markdown as soon as it is complete.
func Run(ctx context.Context, o Options, out, progress io.Writer) error {
	return run(ctx, o, fullSize(o.Rounds), out, progress)
}

func run(ctx context.Context, o Options, size size, out, progress io.Writer) (err error) {
	logging.Disable() // what go-redis would write is in its errors too
	b := &bench{size: size, progress: progress}
	if o.Pin {
		if b.pin, err = pinClient(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, moveProcess(context.WithoutCancel(ctx), b.pin.all, own)) }()
	}
	attempt := redistest.Try(ctx, func(tb testing.TB) {
		b.tb = tb
		err = b.measure(ctx, o.Tables, out)
	})
	return errors.Join(err, attempt.Err())
}

func (b *bench) measure(ctx context.Context, names []string, out io.Writer) error {
	began := time.Now()
	if err := b.writeSetting(ctx, out); err != nil {
		return err
	}
	for _, table := range tables {
		if !slices.Contains(names, table.name) {
			continue
		}
		report, err := table.measure(ctx, b)
		if err == nil {
			err = report.write(out)
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", table.name, err)
		}
	}
	fmt.Fprintf(b.progress, "%.0f s in all\n", time.Since(began).Seconds())
	return nil
}

// bench is what all tables have in common.
type bench struct {
	size
	tb       testing.TB // who starts the servers
	pin      *pin       // nil: nothing is pinned
	progress io.Writer
}

// size says how much is measured.
type size struct {
	rounds    int
	customers int           // of whom decisions are made
	decisions int           // in a lap that measures server time
	slice     int           // of them that are measured at once
	callers   int           // at the same time
	lap       time.Duration // of a lap that measures throughput
	pending   int           // documents of one customer
}

// fullSize is what the command measures.
func fullSize(rounds int) size {
	return size{
		rounds:    rounds,
		customers: 10_000,
		decisions: 20_000,
		slice:     500,
		callers:   256,
		lap:       200 * time.Millisecond,
		pending:   100_000,
	}
}

// writeSetting writes what the figures were measured on and with.
func (b *bench) writeSetting(ctx context.Context, w io.Writer) error {
	server, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	info, err := server.info(ctx, "server")
	if err != nil {
		return err
	}
	version := "Redis " + info["redis_version"]
	if valkey := info["valkey_version"]; valkey != "" {
		version = "Valkey " + valkey
	}
	_, err = fmt.Fprintf(w, "%s, %s, %s/%s, %d CPUs. %s\n%s\n\n",
		version, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), b.pin, moduleVersions())
	return err
}

// moduleVersions lists the clients and the peers, one a line.
func moduleVersions() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var lines []string
	for _, module := range build.Deps {
		for _, path := range []string{
			"github.com/redis/go-redis/v9", "github.com/redis/rueidis", "github.com/go-redis/redis_rate/v10",
			"github.com/ulule/limiter/v3",
		} {
			if module.Path == path {
				lines = append(lines, "- "+module.Path+" "+module.Version)
			}
		}
	}
	return "\n" + strings.Join(lines, "\n")
}
