package main

import (
	"context"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// environment is what the commands know about the process besides its streams. Only
// main has the real one, so that no test acts on a Redis that it did not name.
type environment struct {
	getenv     func(name string) string
	defaultURL string // what Redis is used if neither -redis nor a variable names one; "" refuses that
	terminal   func(stream any) (width, height int, ok bool)
	keys       func(stream any) (restore func(), ok bool) // makes a terminal pass each key on at once
	connect    func(*redis.UniversalOptions) redis.UniversalClient
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

// keysOf makes a terminal pass each key on at once, and shows none.
func keysOf(stream any) (restore func(), ok bool) {
	file, ok := stream.(*os.File)
	if !ok {
		return nil, false
	}
	before, err := term.MakeRaw(int(file.Fd()))
	return func() { _ = term.Restore(int(file.Fd()), before) }, err == nil
}

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	normal = "\x1b[m"
)

// paint returns what writes text in a style: on a terminal, unless the user wants no colors.
func (e environment) paint(stream any) func(style, text string) string {
	if _, _, ok := e.terminal(stream); !ok || e.getenv("NO_COLOR") != "" {
		return plain
	}
	return func(style, text string) string {
		if style == "" {
			return text
		}
		return style + text + normal
	}
}

func plain(_, text string) string { return text }

type environmentKey struct{}

// in returns a context from which the commands get the environment.
func (e environment) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, environmentKey{}, e)
}

func environmentOf(command *cobra.Command) environment {
	return command.Context().Value(environmentKey{}).(environment)
}
