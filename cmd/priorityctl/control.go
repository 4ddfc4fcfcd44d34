package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
)

const controlLong = `Control saves what operators have set, the policies and the overrides, and restores
it after Redis lost its data.

  priorityctl control export >new.json && mv new.json control.json
  priorityctl control import control.json -why 'Redis was empty'`

func newControl() *cobra.Command {
	return group("control", controlLong, newControlExport(), newControlImport())
}

func newControlExport() *cobra.Command {
	command := &cobra.Command{
		Use: "export",
		Long: `Export prints the policies and all overrides as JSON, with who set them, why, and until
when. If workers report that Redis lost data, it prints nothing and fails, so that no
good file is replaced, until an operator has imported an export, or decided on the policies.

  priorityctl control export >new.json && mv new.json control.json`,
	}
	yes := command.Flags().Bool("yes", false, "print what is left, even if workers report that Redis lost some")
	return looking(command, nil, func(c *call, s *insight.Snapshot, _ []string) error {
		if err := c.needAll(); err != nil {
			return err
		}
		if loss := s.Loss(c.ctx()); loss != nil && !*yes {
			return fmt.Errorf("%s: nothing was exported; control import brings back an earlier export, and -yes prints what is left", loss.Found)
		}
		s, err := s.OfOverrides(c.ctx())
		if err != nil {
			return err
		}
		backup, err := s.Admin.Export(c.ctx())
		if err != nil {
			return err
		}
		return writeJSON(c.out, backup)
	})
}

func newControlImport() *cobra.Command {
	command := &cobra.Command{
		Use: "import {FILE | -} -why TEXT", Args: cobra.ExactArgs(1), DisableFlagsInUseLine: true,
		Long: `Import sets what control export has printed, with the same authors, reasons and ends,
where there are neither policies nor overrides. With -force it replaces the policies, and
the overrides of the same customers. It may be run again, with -force.

  priorityctl control import control.json -why 'Redis was empty'`,
	}
	var flags changeFlags
	flags.register(command)
	force := command.Flags().Bool("force", false, "replace what is there")
	registerJSON(command)
	return looking(command, flags.check, func(c *call, s *insight.Snapshot, args []string) error {
		text, source, err := readInput(args[0], c.command.InOrStdin())
		if err == nil {
			err = c.needAll()
		}
		if err != nil {
			return err
		}
		var backup control.Backup
		if err := json.Unmarshal(text, &backup); err != nil {
			return usageError("%s: %w", source, err)
		}
		s, err = s.OfOverrides(c.ctx())
		if err != nil {
			return err
		}
		done, err := s.Admin.Import(c.ctx(), &backup, *force, flags.change(c))
		if errors.Is(err, control.ErrConflict) {
			return fmt.Errorf("%w: nothing was changed; -force replaces the policies, and the overrides of the same customers", err)
		} else if err != nil {
			return err
		}
		if c.asJSON {
			return writeJSON(c.out, done)
		}
		says := insight.Plural(int64(done.Overrides), "override") + " in force"
		if done.Over > 0 {
			says += fmt.Sprintf(", %d have ended since", done.Over)
		}
		if done.Version > 0 {
			says += fmt.Sprintf("; the policies are version %d", done.Version)
			if s, err := c.Await(c.ctx()); err == nil {
				says += ": " + s.Following()
			}
		}
		indented(c.out, 0, says+".")
		return nil
	})
}
