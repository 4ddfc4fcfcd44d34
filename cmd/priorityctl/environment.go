package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// environment is what the commands know about the process besides its streams. Only
// main has the real one, so that no test acts on a Redis that it did not name.
type environment struct {
	getenv     func(name string) string
	defaultURL string // what Redis is used if neither -redis nor a variable names one; "" refuses that
	terminal   func(stream any) (width, height int, ok bool)
}

// terminalOf returns the size of a terminal.
func terminalOf(stream any) (width, height int, ok bool) {
	if out, ok := stream.(*output); ok {
		stream = out.Writer
	}
	file, ok := stream.(*os.File)
	if !ok {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(file.Fd()))
	return width, height, err == nil
}

type environmentKey struct{}

// in returns a context from which the commands get the environment.
func (e environment) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, environmentKey{}, e)
}

func environmentOf(command *cobra.Command) environment {
	return command.Context().Value(environmentKey{}).(environment)
}
