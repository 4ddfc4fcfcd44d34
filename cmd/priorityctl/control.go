package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

const controlLong = `Control saves what operators have set, the policy and the
overrides, and restores it after Redis lost its data.

  priorityctl control export > new.json && mv new.json control.json
  priorityctl control import control.json -why 'Redis was empty'`

const controlExportLong = `Export prints the policy and all overrides as JSON, with who set them, why, and until
when. Keep it: import restores all of it. It does not contain the log and the
customers' numbers.

If workers report that Redis lost what operators set, it prints nothing and fails, so
that no good backup is replaced; -yes prints what is left.

  priorityctl control export > new.json && mv new.json control.json`

const controlImportLong = `Import sets what control export has printed, with the same authors, reasons and
ends. Overrides that have ended are left out, and what was set since the export
stays as it is. It may be run again, also after a failure. FILE may be -,
standard input.

  priorityctl control import control.json -why 'Redis was empty'

The log records who made the change (-by, by default the user of this system) and
-why.`

func newControl() *cobra.Command {
	command := &cobra.Command{
		Use:   "control",
		Short: "Saves what operators have set, and restores it",
		Long:  controlLong,
		Args:  unknownCommand,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newControlExport(), newControlImport())
	return command
}

func newControlExport() *cobra.Command {
	var connect connectionFlags
	queue := queueFlags{levels: defaultLevels}
	var yes bool
	command := &cobra.Command{
		Use:               "export",
		Short:             "Prints all that operators have set",
		Long:              controlExportLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, _ []string) error {
		lost, err := c.lost(command)
		switch {
		case err != nil:
			return err
		case lost != "" && !yes:
			return fmt.Errorf("%s: nothing was exported; control import brings back an earlier export, and -yes prints what is left", lost)
		}
		backup, err := c.Admin.Export(command.Context())
		if backup == nil {
			return c.broken(c.readable(err))
		}
		if err := writeJSON(command.OutOrStdout(), backup); err != nil {
			return err
		}
		if err != nil {
			return statusError{exitSomeFailed, fmt.Errorf("not all of it could be read: %w", err)}
		}
		return nil
	})
	command.Flags().BoolVar(&yes, "yes", false, "print what is left, even if workers report that Redis lost some")
	connect.register(command)
	return command
}

// lost says which workers report that Redis lost what operators set. If this user may not
// read their reports, it says so, and nobody knows.
func (c *connection) lost(command *cobra.Command) (string, error) {
	lost, err := c.Lost(command.Context())
	if insight.Unreachable(err) {
		return "", c.broken(err)
	} else if err != nil {
		fmt.Fprintln(command.ErrOrStderr(), "priorityctl: whether Redis lost something is not known:", insight.OneLine(c.Hidden(err)))
	}
	return lost, nil
}

// warnOfLoss says which workers report that Redis lost what operators set.
func (c *connection) warnOfLoss(command *cobra.Command) {
	if lost, err := c.Lost(command.Context()); err == nil && lost != "" {
		fmt.Fprintln(command.ErrOrStderr(), "priorityctl:", lost)
	}
}

func newControlImport() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var author changeFlags
	var asJSON bool
	command := &cobra.Command{
		Use:               "import {FILE | -} -why TEXT",
		Short:             "Restores what control export has printed",
		Long:              controlImportLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              namedArguments("a file that control export has printed"),
		ValidArgsFunction: cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt),
		PreRunE:           func(*cobra.Command, []string) error { return author.checkWhy() },
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, args []string) error {
		ctx := command.Context()
		held, source, err := readInput(args[0], command.InOrStdin())
		if err != nil {
			return err
		}
		var backup control.Backup
		if err := json.Unmarshal(held, &backup); err != nil {
			return usageError("%s: %w", source, err)
		}
		if backup.Rules == nil && len(backup.Overrides) == 0 {
			return usageError("%s: this file holds no policy and no overrides: is it the right one?", source)
		}
		if err := c.fit(command, &queue); err != nil {
			return err
		}
		did, err := c.Admin.Import(ctx, &backup, control.Change{By: author.author(command), Why: author.why})
		done := imported{Version: did.Version, Policy: did.Rules, Overrides: did.Overrides, Kept: did.Kept, Over: did.Over}
		if settings, unread := c.Admin.Settings(ctx); did.Rules && unread == nil && settings.Rules != nil {
			c.awaitReport(ctx) // Redis lost the reports too
			obey := c.AwaitRules(ctx, settings.Rules.Version, &settings.Rules.Value.Policy)
			done.Obey = &obey
		}
		if err != nil && done == (imported{}) {
			return c.again(explained(ctx, c, err, "", ""))
		}
		if asJSON {
			err = errors.Join(err, writeJSON(command.OutOrStdout(), done))
		} else {
			_, failed := fmt.Fprintln(command.OutOrStdout(), done)
			err = errors.Join(err, failed)
		}
		return c.again(explained(ctx, c, err, "", ""))
	})
	command.Flags().StringVar(&author.by, "by", "", "who does it (default: the user of this system)")
	command.Flags().StringVar(&author.why, "why", "", "why, for those who ask later")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	queue.register(command)
	connect.register(command)
	return command
}

// awaitReport waits up to three seconds until a worker reports: workers report at once
// when they follow other rules.
func (c *connection) awaitReport(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if reports, err := c.Reports(ctx); err != nil || len(reports) > 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// again adds to an error that the same command may be run again.
func (c *connection) again(err error) error {
	var reply redis.Error
	switch err = byFlag(err); {
	case err == nil || errors.Is(err, priority.ErrInvalid) || exitStatus(err) == exitUsage:
		return err
	case errors.As(err, &reply):
		return fmt.Errorf("%w; run the same command again when that is settled", err)
	case halfway(err):
		return statusError{exitUnreachable, fmt.Errorf("%w; run the same command again", err)}
	case insight.Unreachable(err):
		return statusError{exitUnreachable, fmt.Errorf("cannot reach %s any more: %w; run the same command again", c.Server.Address, err)}
	}
	return err
}

// imported is what an import did.
type imported struct {
	Version   int64              `json:"version"`        // of the last change; 0: nothing was changed
	Policy    bool               `json:"policy"`         // the policy is now the file's
	Overrides int                `json:"overrides"`      // overrides that are now in force
	Kept      int                `json:"kept"`           // items that were set differently since
	Over      int                `json:"over"`           // overrides that have ended since
	Obey      *insight.Obedience `json:"obey,omitempty"` // who follows the policy
}

// String is what a person reads.
func (i imported) String() string {
	var said []string
	if i.Policy {
		said = append(said, "the policy is back")
	}
	said = append(said, insight.Plural(int64(i.Overrides), "override")+" in force")
	if i.Over > 0 {
		said = append(said, insight.Group(int64(i.Over))+" over since")
	}
	if i.Kept > 0 {
		said = append(said, insight.Group(int64(i.Kept))+" set since, and kept as it is now")
	}
	text := strings.Join(said, "; ")
	if i.Version > 0 {
		text += fmt.Sprintf(" (version %d)", i.Version)
	} else {
		text += "; nothing was changed"
	}
	if i.Obey != nil {
		text += "\n  " + strings.ReplaceAll(insight.Wrap("policy: "+i.Obey.String(), 77), "\n", "\n  ")
	}
	return text
}
