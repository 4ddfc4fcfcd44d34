package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
	"github.com/spf13/cobra"
)

const controlLong = `Control saves what operators have set, the policy and the overrides, and restores
it after Redis lost its data.

  priorityctl control export >new.json && mv new.json control.json
  priorityctl control import control.json -why 'Redis was empty'`

func newControl() *cobra.Command {
	return group("control", controlLong, newControlExport(), newControlImport())
}

func newControlExport() *cobra.Command {
	var connect connectionFlags
	var yes bool
	command := &cobra.Command{
		Use: "export",
		Long: `Export prints the policy and all overrides as JSON, with who set them, why, and until
when. If workers report that Redis lost data, it prints nothing and fails, so that no
good file is replaced, until an operator has imported an export, or decided on the policy.

  priorityctl control export >new.json && mv new.json control.json`,
	}
	command.RunE = connected(&connect, nil, func(command *cobra.Command, c *connection, _ []string) error {
		if loss := c.Loss(command.Context()); loss != "" && !yes {
			return fmt.Errorf("%s: nothing was exported; control import brings back an earlier export, and -yes prints what is left", loss)
		}
		backup, err := c.Admin.Export(command.Context())
		if err != nil {
			return err
		}
		return writeJSON(command.OutOrStdout(), backup)
	})
	command.Flags().BoolVar(&yes, "yes", false, "print what is left, even if workers report that Redis lost some")
	connect.register(command)
	return command
}

func newControlImport() *cobra.Command {
	var connect connectionFlags
	var flags changeFlags
	var force, asJSON bool
	command := &cobra.Command{
		Use: "import {FILE | -} -why TEXT", Args: arguments("a file of control export"), DisableFlagsInUseLine: true,
		Long: `Import sets what control export has printed, with the same authors, reasons and ends,
where there is neither a policy nor an override. With -force it replaces the policy, and
the overrides of the same customers. It may be run again, with -force.

  priorityctl control import control.json -why 'Redis was empty'`,
	}
	command.RunE = connected(&connect, flags.check, func(command *cobra.Command, c *connection, args []string) error {
		held, source, err := readInput(args[0], command.InOrStdin())
		if err != nil {
			return err
		}
		var backup control.Backup
		if err := json.Unmarshal(held, &backup); err != nil {
			return usageError("%s: %w", source, err)
		}
		ctx := command.Context()
		done, err := c.Admin.Import(ctx, &backup, force, flags.change(command))
		if errors.Is(err, control.ErrConflict) {
			return fmt.Errorf("%w: nothing was changed; -force replaces the policy, and the overrides of the same customers", err)
		} else if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(command.OutOrStdout(), done)
		}
		text := insight.Plural(int64(done.Overrides), "override") + " in force"
		if done.Over > 0 {
			text += fmt.Sprintf(", %d have ended since", done.Over)
		}
		if done.Version > 0 {
			text += fmt.Sprintf("; the policy is version %d", done.Version)
			if now, err := c.Await(ctx); err == nil {
				text += ": " + now.Following()
			}
		}
		indented(command.OutOrStdout(), 0, text+".")
		return nil
	})
	flags.register(command)
	command.Flags().BoolVar(&force, "force", false, "replace what is there")
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}
