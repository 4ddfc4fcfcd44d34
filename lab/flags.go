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

// modelFlags say what is simulated, for simulate, matrix and tune.
type modelFlags struct {
	options    simulation.Options
	service    simulation.ServiceTime
	trace      simulation.TraceOptions
	thresholds string
	interval   time.Duration
	mode       string
	loads      string
	turns      int
}

func (m *modelFlags) register(flags *flag.FlagSet) {
	policy := priority.DefaultPolicy()
	flags.StringVar(&m.thresholds, "thresholds", joined(policy.Thresholds), "the policy's `numbers`, as -5,-50; empty: one level")
	flags.DurationVar(&m.interval, "reset-interval", policy.ResetInterval, "the policy's reset interval")
	flags.StringVar(&m.mode, "reset-mode", lastUpdate, "since when the interval runs: last-update or last-reset")
	flags.StringVar(&m.loads, "loads", "", "the policy's `loads`, as 8,512,8192,32768; empty: the default ones of as many levels as the thresholds give, with turns")
	flags.IntVar(&m.turns, "turns", 0, "the policy's turns behind the last load; 0: with loads none, else as many as the thresholds give levels more")
	flags.DurationVar(&m.options.Lease, "lease", 0, "how long a submitted document without a Done is pending at most; 0: the module's default")
	flags.StringVar(&m.options.Discipline, "discipline", simulation.Strict,
		"how consumers take levels: strict, or weights as 8:4:2:1")
	flags.DurationVar(&m.service.Mean, "service-mean", 2*time.Second, "mean service time")
	flags.Float64Var(&m.service.CV, "service-cv", 1, "standard deviation of service times, which are lognormal, ÷ mean; 0: all are alike")
	flags.DurationVar(&m.trace.Cap, "service-cap", time.Minute, "shorten a trace's longer service times to this; 0: leave them")
	flags.IntVar(&m.trace.LightDocuments, "light", 20, "a light customer has at most this many documents in the trace")
}

const lastUpdate, lastReset = "last-update", "last-reset"

// check sets what the flags say together.
func (m *modelFlags) check() error {
	policy := priority.Policy{Thresholds: []int64{}, ResetInterval: m.interval, Turns: m.turns}
	for field := range strings.SplitSeq(m.thresholds, ",") {
		if m.thresholds == "" {
			break
		}
		threshold, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
		if err != nil {
			return fmt.Errorf("-thresholds: %q is not a whole number", field)
		}
		policy.Thresholds = append(policy.Thresholds, threshold)
	}
	for field := range strings.FieldsFuncSeq(m.loads, func(r rune) bool { return r == ',' }) {
		load, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil {
			return fmt.Errorf("-loads: %q is not a number", field)
		}
		policy.Loads = append(policy.Loads, load)
	}
	switch m.mode {
	case lastUpdate:
	case lastReset:
		policy.ResetMode = priority.SinceLastReset
	default:
		return fmt.Errorf("-reset-mode is %s or %s, not %q", lastUpdate, lastReset, m.mode)
	}
	m.trace.Service = m.service
	m.options.Policy = policy.WithDefaults()
	return errors.Join(policy.Validate(), m.service.Validate(), m.trace.Validate())
}

// read reads a trace. A file that cannot be opened is a wrong call; what is wrong in it
// is not.
func (m *modelFlags) read(with terminal, name string) (*simulation.Trace, error) {
	recorded, err := simulation.ReadTrace(trace.Open(name, with.stdin))
	if unreadable := (*fs.PathError)(nil); errors.As(err, &unreadable) {
		return nil, wrongCall(err)
	}
	return recorded, err
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

func joined(numbers []int64) string {
	texts := make([]string, len(numbers))
	for i, number := range numbers {
		texts[i] = strconv.FormatInt(number, 10)
	}
	return strings.Join(texts, ",")
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
