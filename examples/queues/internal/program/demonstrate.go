package program

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/flood"
	"github.com/docpriority/priority/memory"
)

// demonstrate tells the flood's story twice on a real server, with levels and
// without.
func demonstrate(ctx context.Context, example *Example, l *line, out io.Writer) error {
	config := &l.Config
	if config.URL == "" {
		own, err := example.Start(ctx)
		if err != nil {
			return err
		}
		defer own.Stop()
		config.URL = own.URL
	}
	fmt.Fprint(out, flood.Story)

	levels, err := memory.New(&memory.Options{Policy: priority.Policy{Turns: l.turns}}) // a fleet shares a priority.RedisStore
	if err != nil {
		return err
	}
	with, err := wait(ctx, example, *config, levels)
	if err != nil {
		return err
	}
	oneLevel, err := memory.New(&memory.Options{Policy: priority.Policy{Thresholds: []int64{}}})
	if err != nil {
		return err
	}
	without, err := wait(ctx, example, *config, oneLevel)
	if err != nil {
		return err
	}
	last := levels.Last()
	fmt.Fprintf(out, "In %s level 1 is %s, and level %d is %s.\n\n",
		example.Queue, example.Call(1, last), last, example.Call(last, last))
	flood.Table(out, with, without)
	if l.waits == "" {
		return nil
	}
	return os.WriteFile(l.waits, flood.CSV(with, without), 0o644)
}

// wait tells the story once, in a queue of its own, and returns who waited how long.
func wait(ctx context.Context, example *Example, config Config, store priority.Store) (_ []flood.Wait, err error) {
	config.Name = "priority-example-" + rand.Text()
	config.Store = store
	config.Workers = flood.Workers
	queue, err := example.Open(ctx, &config)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // after an interrupt too
		defer cancel()
		err = errors.Join(err, queue.Remove(ctx), queue.Close())
	}()
	return flood.Run(ctx, queue)
}
