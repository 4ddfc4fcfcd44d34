package main

import (
	"context"
	"fmt"
)

// documented reads the documentation of every library and command, and says whether
// that has changed a file. The go command likes to add to go.work.sum.
func (r *rehearsal) documented(ctx context.Context) error {
	for _, one := range append(r.libraries, r.commands...) {
		if _, err := output(ctx, r.copied.dir, nil, "go", "doc", "-all", one.path); err != nil {
			return err
		}
	}
	changes, err := r.copied.changes(ctx)
	if err == nil && changes != "" {
		err = fmt.Errorf("it changes:\n%s", changes)
	}
	return err
}
