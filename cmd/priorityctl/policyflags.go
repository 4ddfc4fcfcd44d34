package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// namedPolicy is a policy with every field filled in, and where it is from.
type namedPolicy struct {
	priority.Policy
	Name string
}

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
	complete(command, "reset-mode", cobra.FixedCompletions([]string{lastUpdate, lastReset}, cobra.ShellCompDirectiveNoFileComp))
	complete(command, "thresholds", cobra.NoFileCompletions)
}

// complete sets what the shell offers for a flag. The flag exists, so that there
// is no error.
func complete(command *cobra.Command, flag string, offer cobra.CompletionFunc) {
	_ = command.RegisterFlagCompletionFunc(flag, offer)
}

func (f *policyOfFlags) read(command *cobra.Command) (namedPolicy, error) {
	byFlags := false
	for _, name := range []string{"thresholds", "reset-interval", "reset-mode"} {
		byFlags = byFlags || command.Flags().Changed(name)
	}
	switch {
	case f.file != "" && byFlags:
		return namedPolicy{}, usageError("-policy takes all from its file: leave out -thresholds, -reset-interval and -reset-mode")
	case f.file != "":
		return readPolicy(f.file)
	}
	policy, err := f.policy()
	if err != nil {
		return namedPolicy{}, statusError{exitUsage, err}
	}
	if byFlags {
		return namedPolicy{policy, "from the flags"}, nil
	}
	return namedPolicy{policy, "the module's default"}, nil
}

const (
	lastUpdate = "last-update"
	lastReset  = "last-reset"
)

// resetMode is priority.ResetMode on a command line and in JSON.
type resetMode priority.ResetMode

// Set implements pflag.Value.
func (m *resetMode) Set(text string) error {
	switch text {
	case lastUpdate:
		*m = resetMode(priority.SinceLastUpdate)
	case lastReset:
		*m = resetMode(priority.SinceLastReset)
	default:
		return fmt.Errorf("it is %s or %s", lastUpdate, lastReset)
	}
	return nil
}

// String implements pflag.Value.
func (m *resetMode) String() string {
	if priority.ResetMode(*m) == priority.SinceLastReset {
		return lastReset
	}
	return lastUpdate
}

// Type implements pflag.Value.
func (*resetMode) Type() string { return "mode" }

// policyJSON is a policy in a file and in every -json.
type policyJSON struct {
	Thresholds      []int64 `json:"thresholds"`
	ResetIntervalMS int64   `json:"reset_interval_ms"`
	ResetMode       string  `json:"reset_mode"`
}

func jsonOf(policy priority.Policy) policyJSON {
	mode := resetMode(policy.ResetMode)
	return policyJSON{policy.Thresholds, policy.ResetInterval.Milliseconds(), mode.String()}
}

// readPolicy reads a policy's file, or takes the module's if its name is
// "default".
func readPolicy(name string) (namedPolicy, error) {
	if name == "default" {
		return namedPolicy{priority.DefaultPolicy(), "the module's default"}, nil
	}
	held, err := os.ReadFile(name)
	if err != nil {
		return namedPolicy{}, statusError{exitUsage, err}
	}
	policy, err := parsePolicy(held)
	if err != nil {
		return namedPolicy{}, usageError("%s: %w", name, err)
	}
	return namedPolicy{policy, filepath.Base(name)}, nil
}

// parsePolicy reads a policy as policy -json prints it. As in priority.Policy,
// what is left out is the module's default.
func parsePolicy(text []byte) (priority.Policy, error) {
	var file policyJSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return priority.Policy{}, fmt.Errorf("not a policy: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return priority.Policy{}, errors.New("not a policy: there is something behind its object")
	}
	policy := priority.DefaultPolicy()
	if file.Thresholds != nil {
		policy.Thresholds = file.Thresholds
	}
	const mostMilliseconds = int64(1<<63-1) / int64(time.Millisecond)
	if file.ResetIntervalMS > mostMilliseconds || file.ResetIntervalMS < 0 {
		return priority.Policy{}, fmt.Errorf("reset_interval_ms %d is no number of milliseconds from 1 to %d", file.ResetIntervalMS, mostMilliseconds)
	}
	if file.ResetIntervalMS > 0 {
		policy.ResetInterval = time.Duration(file.ResetIntervalMS) * time.Millisecond
	}
	if file.ResetMode != "" {
		var mode resetMode
		if err := mode.Set(file.ResetMode); err != nil {
			return priority.Policy{}, fmt.Errorf("reset_mode %.40q: %w", file.ResetMode, err)
		}
		policy.ResetMode = priority.ResetMode(mode)
	}
	return policy, policy.Validate()
}
