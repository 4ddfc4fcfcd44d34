package main

import (
	"context"
	"errors"
	"fmt"
)

// tidy says which go.mod and go.sum "go mod tidy" would change once the version in
// preparation is there for everybody.
func tidy(ctx context.Context, t tree) error {
	r, err := release(ctx, t)
	if err != nil {
		return err
	}
	defer r.remove()
	return r.tidy(ctx)
}

func (r *rehearsal) tidy(ctx context.Context) error {
	var wrong []error
	for _, module := range r.modules {
		if _, err := r.user.run(ctx, r.copied.at(module.folder), "mod", "tidy", "-diff"); err != nil {
			wrong = append(wrong, fmt.Errorf("%s is not tidy: %w", module.goMod(), err))
		}
	}
	return errors.Join(wrong...)
}
