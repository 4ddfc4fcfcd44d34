package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rehearse releases a copy of the tree, and then does what users do, from empty
// folders, on the oldest Go that we support, with nothing of ours but what is published.
func rehearse(ctx context.Context, t tree) error {
	var r *rehearsal
	defer func() {
		if r != nil {
			r.remove()
		}
	}()
	return steps(
		step{"go.mod files, versions and the workspace; a port for Redis", func() error { return errors.Join(t.rules(ctx), portIsFree()) }},
		step{"release a copy of the tree", func() (err error) { r, err = release(ctx, t); return err }},
		step{"go mod tidy would change nothing", func() error { return r.tidy(ctx) }},
		step{"go get each library, and vet a program with all packages", func() error { return r.consumer(ctx) }},
		step{"compile the Go of every document", func() error { return r.snippets(ctx) }},
		step{"run the README's Go on a Redis", func() error { return r.readme(ctx) }},
		step{"go install each command, and run priorityctl", func() error { return r.installs(ctx) }},
		step{"do what the start page says", func() error { return r.start(ctx, r.copied.at(startPage)) }},
	)
}

type step struct {
	name string
	do   func() error
}

// steps does one after the other, and says how long each took.
func steps(all ...step) error {
	for _, step := range all {
		fmt.Println(step.name)
		begin := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("  %.1f s\n", time.Since(begin).Seconds())
	}
	return nil
}
