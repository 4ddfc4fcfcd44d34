package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// bench is what all tables have in common.
type bench struct {
	size
	pin      *pin // nil: nothing is pinned
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
	batch     int           // customers of a NextEach
	many      int           // documents of a NextN
	scale     []int         // numbers of customers of the table of scale
	hot       int           // customers at the last level
	traffic   int           // documents of them
	pending   int           // documents of one customer
	overrides int           // of customers
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
		batch:     1000,
		many:      10_000,
		scale:     []int{1_000, 10_000, 100_000, 1_000_000},
		hot:       9_000,
		traffic:   200_000,
		pending:   100_000,
		overrides: 10_000,
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
			"github.com/ulule/limiter/v3", "github.com/throttled/throttled/v2",
		} {
			if module.Path == path {
				lines = append(lines, "- "+module.Path+" "+module.Version)
			}
		}
	}
	return "\n" + strings.Join(lines, "\n")
}
