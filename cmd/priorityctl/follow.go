package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const followHelp = `The levels follow what operators have set: see policy apply and override. If
operators have set no policy, the workers' own options apply. Name them by -policy: Redis does not
know them, nor which tier a customer is in.`

// follow follows what operators have set. If that cannot be read, it says so, and
// follows the workers' own options.
func (c *connection) follow(command *cobra.Command) error {
	err := c.mustFollow(command)
	if err == nil || insight.Unreachable(err) || command.Context().Err() != nil {
		return c.broken(err)
	}
	fmt.Fprintln(command.ErrOrStderr(), "priorityctl: without what operators have set:", insight.OneLine(c.Hidden(err)))
	return nil
}

// mustFollow follows what operators have set, or fails.
func (c *connection) mustFollow(command *cobra.Command) error {
	err := c.refollow(command.Context())
	if errors.Is(err, priority.ErrInvalid) {
		remedy := "-policy"
		if command.Flags().Lookup("levels") != nil {
			remedy = "-levels"
		}
		err = statusError{exitFailed, fmt.Errorf("%w; say what the workers have by %s", err, remedy)}
	}
	return c.broken(err)
}

// fit reads the workers' reports, takes the number of the queue's levels from them, unless
// -levels says it, and follows what operators have set, if that can be used.
func (c *connection) fit(command *cobra.Command, queue *queueFlags) error {
	reports, err := c.Reports(command.Context())
	if insight.Unreachable(err) {
		return c.broken(err)
	}
	c.reports, c.unreported = reports, err
	levels := 0
	for _, report := range reports {
		levels = max(levels, int(report.Levels))
	}
	if levels > 0 && !command.Flags().Changed("levels") {
		queue.levels = levels
		rules, err := queue.read(command)
		if err == nil {
			err = c.goBy(rules)
		}
		if err != nil {
			return err
		}
	}
	if err := c.refollow(command.Context()); err == nil || insight.Unreachable(err) {
		return c.broken(err)
	}
	return c.clock(command) // overrides and the log can still be read
}

// obey says who applies an override.
func (c *connection) obey(override priority.Override) insight.Obedience {
	if c.unreported != nil {
		return insight.Obedience{Error: insight.OneLine(c.Hidden(c.unreported))}
	}
	return insight.ObeyOverride(c.reports, override)
}

// clock reads Redis's time, and nothing that operators have set.
func (c *connection) clock(command *cobra.Command) error {
	timed, err := c.Timed(command.Context())
	if err != nil {
		return c.broken(c.readable(err))
	}
	c.Inspector = *timed
	return nil
}

func (c *connection) refollow(ctx context.Context) error {
	followed, err := c.Follow(ctx)
	if err == nil {
		c.Inspector = *followed
	}
	return err
}

// explained says who has changed something meanwhile, or which rights are missing.
func explained(ctx context.Context, c *connection, err error, kind, customer string) error {
	err = c.Explained(ctx, err, kind, customer)
	if customer != "" && !errors.Is(err, priority.ErrInvalid) {
		err = fmt.Errorf("%s: %w", insight.Shown(customer), err)
	}
	return err
}

// readable adds to a read error which rights are missing.
func (c *connection) readable(err error) error {
	if insight.Forbidden(err) {
		return fmt.Errorf("%w; it needs %s on the keys ~%s:{control}:*", err, insight.ControlReadRights, c.Prefix)
	}
	return err
}
