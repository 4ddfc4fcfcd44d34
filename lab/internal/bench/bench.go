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
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/docpriority/priority/internal/testing/redistest"
)

// Run measures, and prints each table in Markdown as soon as it is complete. One round before
// those that count warms up. With CPUs to choose from, redis-server has one for itself.
func Run(ctx context.Context, rounds int, out, progress io.Writer) error {
	return run(ctx, fullSize(rounds), canPin(), out, progress)
}

func run(ctx context.Context, size size, pinned bool, out, progress io.Writer) (err error) {
	logging.Disable() // what go-redis would write is in its errors too
	b := &bench{size: size, progress: progress}
	if pinned {
		if b.pin, err = pinClient(ctx); err != nil {
			return err
		}
	}
	attempt := redistest.Try(ctx, func(tb testing.TB) {
		b.tb = tb
		err = b.measure(ctx, out)
	})
	return errors.Join(err, attempt.Err())
}

func (b *bench) measure(ctx context.Context, out io.Writer) error {
	began := time.Now()
	if err := b.writeSetting(ctx, out); err != nil {
		return err
	}
	for _, table := range []func(context.Context, *bench) (*report, error){measurePeers, measureScripts} {
		report, err := table(ctx, b)
		if err == nil {
			err = report.write(out)
		}
		if err != nil {
			return err
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
		} {
			if module.Path == path {
				lines = append(lines, "- "+module.Path+" "+module.Version)
			}
		}
	}
	return "\n" + strings.Join(lines, "\n")
}
