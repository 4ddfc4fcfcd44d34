package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/lab/internal/simulation"
	"github.com/docpriority/priority/lab/internal/trace"
)

// traceFlags say how a trace is read.
type traceFlags struct{ trace simulation.TraceOptions }

func (f *traceFlags) register(flags *flag.FlagSet) {
	flags.DurationVar(&f.trace.Cap, "service-cap", time.Minute, "shorten a trace's longer service times to this; 0: leave them")
	flags.IntVar(&f.trace.LightDocuments, "light", 20, "a light customer has at most this many documents in the trace")
}

// read reads a trace. A file that cannot be opened is a wrong call; what is wrong in it
// is not.
func (f *traceFlags) read(with terminal, name string) (*simulation.Trace, error) {
	recorded, err := simulation.ReadTrace(trace.Open(name, with.stdin))
	if unreadable := (*fs.PathError)(nil); errors.As(err, &unreadable) {
		return nil, wrongCall(err)
	}
	return recorded, err
}

// policyFlags say which policy a team has.
type policyFlags struct {
	thresholds, loads, mode string
	interval                time.Duration
	turns                   int
}

func (f *policyFlags) register(flags *flag.FlagSet) {
	policy := priority.DefaultPolicy()
	thresholds := strings.Trim(strings.ReplaceAll(fmt.Sprint(policy.Thresholds), " ", ","), "[]")
	flags.StringVar(&f.thresholds, "thresholds", thresholds, "the policy's `numbers`, as -5,-50; empty: one level")
	flags.DurationVar(&f.interval, "reset-interval", policy.ResetInterval, "the policy's reset interval")
	flags.StringVar(&f.mode, "reset-mode", lastUpdate, "since when the interval runs: last-update or last-reset")
	flags.StringVar(&f.loads, "loads", "", "the policy's `loads`, as 8,512,8192,32768; empty: the default ones of as many levels as the thresholds give, with turns")
	flags.IntVar(&f.turns, "turns", 0, "the policy's turns behind the last load; 0: with loads none, else as many as the thresholds give levels more")
}

const lastUpdate, lastReset = "last-update", "last-reset"

// policy returns what the flags say together.
func (f *policyFlags) policy() (priority.Policy, error) {
	policy := priority.Policy{Thresholds: []int64{}, ResetInterval: f.interval, Turns: f.turns}
	for _, field := range fields(f.thresholds) {
		threshold, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return policy, fmt.Errorf("-thresholds: %q is not a whole number", field)
		}
		policy.Thresholds = append(policy.Thresholds, threshold)
	}
	for _, field := range fields(f.loads) {
		load, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return policy, fmt.Errorf("-loads: %q is not a number", field)
		}
		policy.Loads = append(policy.Loads, load)
	}
	switch f.mode {
	case lastUpdate:
	case lastReset:
		policy.ResetMode = priority.SinceLastReset
	default:
		return policy, fmt.Errorf("-reset-mode is %s or %s, not %q", lastUpdate, lastReset, f.mode)
	}
	return policy.WithDefaults(), policy.Validate()
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func checkSeeds(seeds int) error {
	if seeds < 1 || seeds > 100_000 {
		return fmt.Errorf("%d seeds are not from 1 to 100,000", seeds)
	}
	return nil
}

// listFlag is a flag of names that are separated by commas.
type listFlag []string

// String implements flag.Value.
func (l *listFlag) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *listFlag) Set(text string) error {
	*l = strings.Split(text, ",")
	return nil
}

// scenarioList is the part of a help that names scenarios.
func scenarioList(scenarios []simulation.Scenario) string {
	var text strings.Builder
	text.WriteString("Scenarios:\n")
	for _, scenario := range scenarios {
		fmt.Fprintf(&text, "  %-18s%s\n", scenario.Name, scenario.Summary)
	}
	return text.String()
}
