package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// policyFlags are the flags that make a policy.
type policyFlags struct {
	thresholds    string
	resetInterval time.Duration
	mode          resetMode
	loads         string
	turns         int
}

var policyFlagNames = []string{"thresholds", "reset-interval", "reset-mode", "loads", "turns"}

func (f *policyFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.thresholds, "thresholds", "", "counts below which the next level begins, as -2,-4,-20 (default: the module's)")
	flags.DurationVar(&f.resetInterval, "reset-interval", priority.DefaultPolicy().ResetInterval, "how long a customer must pause for the count to be reset")
	flags.Var(&f.mode, "reset-mode", "the interval runs from last-update or last-reset")
	flags.StringVar(&f.loads, "loads", "", "loads above which the next level begins, as 8,64,512 (default: by the number of thresholds)")
	flags.IntVar(&f.turns, "turns", 0, "in how many levels more floods beyond the last load take turns (default: by the number of thresholds; with -loads, none)")
}

// policy returns the policy with every field filled in.
func (f *policyFlags) policy() (priority.Policy, error) {
	policy := priority.Policy{ResetInterval: f.resetInterval, ResetMode: priority.ResetMode(f.mode), Turns: f.turns}
	var err error
	if policy.Thresholds, err = numbers(f.thresholds, func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }); err != nil {
		return policy, fmt.Errorf("-thresholds: %w is not a whole number", err)
	}
	if policy.Loads, err = numbers(f.loads, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }); err != nil {
		return policy, fmt.Errorf("-loads: %w is not a number", err)
	}
	return policy.WithDefaults(), policy.Validate()
}

// numbers reads a list of numbers; an empty list is nil.
func numbers[T any](list string, parse func(string) (T, error)) (all []T, err error) {
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		number, err := parse(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%.40q", text)
		}
		all = append(all, number)
	}
	return all, nil
}

// policyOfFlags are the flags by which an operator names the team's policy.
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
	complete(command, "loads", cobra.NoFileCompletions)
}

// complete sets what the shell offers for a flag. The flag exists, so that there
// is no error.
func complete(command *cobra.Command, flag string, offer cobra.CompletionFunc) {
	_ = command.RegisterFlagCompletionFunc(flag, offer)
}

func (f *policyOfFlags) read(command *cobra.Command) (insight.NamedRules, error) {
	byFlags := false
	for _, name := range policyFlagNames {
		byFlags = byFlags || command.Flags().Changed(name)
	}
	switch {
	case f.file != "" && byFlags:
		return insight.NamedRules{}, usageError("-policy takes all from its file: leave out -%s", strings.Join(policyFlagNames, ", -"))
	case f.file != "":
		return readRules(f.file, command.InOrStdin())
	}
	policy, err := f.policy()
	if err != nil {
		return insight.NamedRules{}, statusError{exitUsage, err}
	}
	if byFlags {
		return insight.NamedRules{Rules: insight.RulesOf(policy), Name: "from the flags"}, nil
	}
	return defaultRules(), nil
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

// readRules reads the policy, and the tiers, of a file or of standard input, or takes
// the module's if the name is "default".
func readRules(name string, stdin io.Reader) (insight.NamedRules, error) {
	if name == "default" {
		return defaultRules(), nil
	}
	held, source, err := readInput(name, stdin)
	if err != nil {
		return insight.NamedRules{}, err
	}
	rules, err := insight.ParseRules(held)
	if err != nil {
		return insight.NamedRules{}, usageError("%s: %w", source, err)
	}
	return insight.NamedRules{Rules: rules, Name: source}, nil
}

func defaultRules() insight.NamedRules {
	return insight.NamedRules{Rules: insight.RulesOf(priority.DefaultPolicy()), Name: "the module's default"}
}

// readInput reads a file, or standard input for "-", and says what people call it.
func readInput(name string, stdin io.Reader) (held []byte, source string, err error) {
	if name == "-" {
		held, err = io.ReadAll(stdin)
		return held, "standard input", err
	}
	if held, err = os.ReadFile(name); err != nil {
		return nil, "", statusError{exitUsage, err}
	}
	return held, filepath.Base(name), nil
}

// queueFlags stand for the workers' own options if only the queue's number of levels
// matters.
type queueFlags struct{ levels int }

const defaultLevels = 9

func (f *queueFlags) register(command *cobra.Command) {
	command.Flags().IntVar(&f.levels, "levels", defaultLevels, "how many levels the queue was declared with, which is what the workers' own policy has")
}

func (f *queueFlags) read(*cobra.Command) (insight.NamedRules, error) {
	const most = 255
	if f.levels < 1 || f.levels > most {
		return insight.NamedRules{}, usageError("-levels %d is not from 1 to %d", f.levels, most)
	}
	thresholds := priority.DefaultPolicy().Thresholds
	for len(thresholds) < f.levels-1 {
		thresholds = append(thresholds, thresholds[len(thresholds)-1]-1)
	}
	policy := priority.Policy{Thresholds: thresholds[:f.levels-1]}.WithDefaults()
	return insight.NamedRules{Rules: insight.RulesOf(policy), Name: "the workers' own options"}, nil
}
