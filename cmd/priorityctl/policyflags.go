package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/page/insight"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// policyFlags are those that make a policy.
type policyFlags struct {
	thresholds    string
	resetInterval time.Duration
	mode          resetMode
}

func (f *policyFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.thresholds, "thresholds", "", "counts below which the next level begins, as -2,-4,-20 (default: the module's)")
	flags.DurationVar(&f.resetInterval, "reset-interval", priority.DefaultPolicy().ResetInterval, "how long a customer must pause to start afresh")
	flags.Var(&f.mode, "reset-mode", "the interval runs from last-update or last-reset")
}

func (f *policyFlags) policy() (priority.Policy, error) {
	policy := priority.DefaultPolicy()
	policy.ResetInterval, policy.ResetMode = f.resetInterval, priority.ResetMode(f.mode)
	if f.thresholds != "" {
		policy.Thresholds = nil
		for text := range strings.SplitSeq(f.thresholds, ",") {
			threshold, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				return policy, fmt.Errorf("-thresholds: %.40q is not a whole number", text)
			}
			policy.Thresholds = append(policy.Thresholds, threshold)
		}
	}
	return policy, policy.Validate()
}

// policyOfFlags are the flags by which an operator says the team's policy.
type policyOfFlags struct {
	policyFlags
	file string
}

func (f *policyOfFlags) register(command *cobra.Command) {
	f.policyFlags.register(command.Flags())
	command.Flags().StringVar(&f.file, "policy", "", "the policy's file, as policy -json prints it (default: the module's policy)")
	complete(command, "policy", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt))
	complete(command, "reset-mode", cobra.FixedCompletions([]string{insight.LastUpdate, insight.LastReset}, cobra.ShellCompDirectiveNoFileComp))
	complete(command, "thresholds", cobra.NoFileCompletions)
}

// complete sets what the shell offers for a flag. The flag exists, so that there
// is no error.
func complete(command *cobra.Command, flag string, offer cobra.CompletionFunc) {
	_ = command.RegisterFlagCompletionFunc(flag, offer)
}

func (f *policyOfFlags) read(command *cobra.Command) (insight.NamedPolicy, error) {
	byFlags := false
	for _, name := range []string{"thresholds", "reset-interval", "reset-mode"} {
		byFlags = byFlags || command.Flags().Changed(name)
	}
	switch {
	case f.file != "" && byFlags:
		return insight.NamedPolicy{}, usageError("-policy takes all from its file: leave out -thresholds, -reset-interval and -reset-mode")
	case f.file != "":
		return readPolicy(f.file)
	}
	policy, err := f.policy()
	if err != nil {
		return insight.NamedPolicy{}, statusError{exitUsage, err}
	}
	if byFlags {
		return insight.NamedPolicy{Policy: policy, Name: "from the flags"}, nil
	}
	return insight.NamedPolicy{Policy: policy, Name: "the module's default"}, nil
}

// resetMode is priority.ResetMode on a command line.
type resetMode priority.ResetMode

// Set implements pflag.Value.
func (m *resetMode) Set(text string) error {
	mode, err := insight.ParseResetMode(text)
	if err == nil {
		*m = resetMode(mode)
	}
	return err
}

// String implements pflag.Value.
func (m *resetMode) String() string { return insight.ResetModeText(priority.ResetMode(*m)) }

// Type implements pflag.Value.
func (*resetMode) Type() string { return "mode" }

// readPolicy reads a policy's file, or takes the module's if its name is
// "default".
func readPolicy(name string) (insight.NamedPolicy, error) {
	if name == "default" {
		return insight.NamedPolicy{Policy: priority.DefaultPolicy(), Name: "the module's default"}, nil
	}
	held, err := os.ReadFile(name)
	if err != nil {
		return insight.NamedPolicy{}, statusError{exitUsage, err}
	}
	policy, err := insight.ParsePolicy(held)
	if err != nil {
		return insight.NamedPolicy{}, usageError("%s: %w", name, err)
	}
	return insight.NamedPolicy{Policy: policy, Name: filepath.Base(name)}, nil
}
