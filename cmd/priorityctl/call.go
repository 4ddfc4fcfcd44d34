package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

// call is one run of a command on Redis.
type call struct {
	*insight.Inspector
	command *cobra.Command
	masters []insight.Master // nil: they were not asked yet
	out     io.Writer
	asJSON  bool
}

func (c *call) ctx() context.Context { return c.command.Context() }

// note tells a person something in one line, beside the output.
func (c *call) note(format string, args ...any) {
	fmt.Fprintf(c.command.ErrOrStderr(), "priorityctl: "+format+"\n", args...)
}

// onRedis makes a command do something with a client of Redis, once check has found the flags
// right; nil: they always are.
func onRedis(command *cobra.Command, check func(*cobra.Command) error, do func(c *call, args []string) error) *cobra.Command {
	flags := new(connectionFlags)
	flags.register(command.Flags())
	command.RunE = func(command *cobra.Command, args []string) error {
		if flags.help {
			_, err := fmt.Fprintln(command.OutOrStdout(), connectionHelp)
			return err
		}
		if check != nil {
			if err := check(command); err != nil {
				return err
			}
		}
		inspector, err := flags.inspector(command)
		if err != nil {
			return err
		}
		defer inspector.Client.Close()
		c := &call{Inspector: inspector, command: command, out: command.OutOrStdout()}
		c.asJSON, _ = command.Flags().GetBool("json") // not every command has it
		err = do(c, args)
		if c.unreached(err) {
			return statusError{exitUnreachable, fmt.Errorf("%w; %s", inspector.Hidden(c.reached(err)), c.Unreached(err).Remedy)}
		}
		return inspector.Hidden(c.reached(err))
	}
	return command
}

// connected is onRedis for what needs to know only that Redis is what its URL says.
func connected(command *cobra.Command, check func(*cobra.Command) error, do func(c *call, args []string) error) *cobra.Command {
	return onRedis(command, check, func(c *call, args []string) error {
		if err := c.meet(); err != nil {
			return err
		}
		return do(c, args)
	})
}

// looking is onRedis for what looks at the fleet first.
func looking(command *cobra.Command, check func(*cobra.Command) error, do func(c *call, s *insight.Snapshot, args []string) error) *cobra.Command {
	return onRedis(command, check, func(c *call, args []string) error {
		s, err := c.look()
		if err != nil {
			return err
		}
		return do(c, s, args)
	})
}

// look looks at the fleet, and makes sure that the command may work there.
func (c *call) look() (*insight.Snapshot, error) {
	s, err := c.Look(c.ctx())
	if err == nil {
		err = c.checkReplica(s.Masters)
	}
	return s, err
}

// meet makes sure that Redis is what its URL says, and that the command may work there.
func (c *call) meet() error {
	masters, err := c.AskMasters(c.ctx())
	if err != nil {
		return err
	}
	return c.checkReplica(masters)
}

// checkReplica refuses a command that changes something on a replica, and warns any other.
func (c *call) checkReplica(masters []insight.Master) error {
	c.masters = masters
	for _, m := range masters {
		switch replica := m.Replica(); {
		case replica == "":
		case c.command.Flags().Lookup("why") != nil:
			return usageError("%s is %s, where nothing can be changed: name the master", c.Address, replica)
		default:
			c.note("%s is %s: it may be behind its master", c.Address, replica)
		}
	}
	return nil
}

// needAll refuses what only makes sense on all masters.
func (c *call) needAll() error {
	for _, m := range c.masters {
		if m.Away != nil {
			return m.Away
		}
	}
	return nil
}

// unreached reports whether an error means that Redis as a whole could not be reached.
func (c *call) unreached(err error) bool {
	_, marked := errors.AsType[statusError](err)
	_, away := errors.AsType[insight.Away](err)
	return insight.Unreachable(err) && !marked && !away && !redis.IsAuthError(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, priority.ErrOutcomeUnknown)
}

// reached marks errors of a Redis that could not be reached.
func (c *call) reached(err error) error {
	_, marked := errors.AsType[statusError](err)
	switch {
	case !marked && redis.IsAuthError(err):
		return statusError{exitUnreachable, fmt.Errorf("%s refuses the login: %w (check -user and %s or -password-file)", c.Address, err, passwordVariable)}
	case c.unreached(err):
		return statusError{exitUnreachable, fmt.Errorf("cannot reach %s: %w", c.Address, err)}
	}
	return err
}

// warn says why the levels below may differ from the workers'.
func (c *call) warn(s *insight.Snapshot) {
	if s.PoliciesErr != nil {
		c.note("operators' settings are ignored: %s", insight.OneLine(c.Hidden(s.PoliciesErr)))
	}
	if s.ReportsErr != nil {
		c.note("the workers' reports are not known: %s", insight.OneLine(c.Hidden(s.ReportsErr)))
	}
	if lost := s.Lost(); lost != "" {
		c.note("%s; the levels below are by %s", lost, s.Source)
	}
}

// warnBelow says why levels and what waits may be otherwise than below, and what to do.
func (c *call) warnBelow(s *insight.Snapshot) {
	for _, check := range s.Below() {
		c.note("%s: %s", check.Found, check.Remedy)
	}
}
