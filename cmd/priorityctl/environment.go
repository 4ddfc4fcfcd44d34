package main

import (
	"context"

	"github.com/spf13/cobra"
)

// environment is what the commands know about the process besides its streams. Only
// main reads the real one, so that no test acts on a Redis that it did not name.
type environment struct {
	getenv     func(name string) string
	defaultURL string // of Redis, if neither -redis nor a variable names a Redis; "": that is an error
}

type environmentKey struct{}

// in returns a context from which the commands get the environment.
func (e environment) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, environmentKey{}, e)
}

func environmentOf(command *cobra.Command) environment {
	return command.Context().Value(environmentKey{}).(environment)
}
