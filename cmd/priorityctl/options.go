package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/spf13/pflag"
)

// policyFlags are those that make a policy.
type policyFlags struct {
	thresholds    string
	resetInterval time.Duration
	reset         string
}

func (f *policyFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.thresholds, "thresholds", "", "counts below which the next level begins, as -2,-4,-20 (default: the module's)")
	flags.DurationVar(&f.resetInterval, "reset-interval", priority.DefaultPolicy().ResetInterval, "how long a customer must pause to start afresh")
	flags.StringVar(&f.reset, "reset", "last-update", "the interval runs from last-update or last-reset")
}

func (f *policyFlags) policy() (priority.Policy, error) {
	policy := priority.DefaultPolicy()
	policy.ResetInterval = f.resetInterval
	switch f.reset {
	case "last-update":
	case "last-reset":
		policy.ResetMode = priority.SinceLastReset
	default:
		return policy, fmt.Errorf("-reset is last-update or last-reset, not %q", f.reset)
	}
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

// serviceFlags are those that make service times.
type serviceFlags struct{ simulation.ServiceTime }

func (f *serviceFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Shape, "service", simulation.Lognormal, "distribution of service times: lognormal, exponential or fixed")
	flags.DurationVar(&f.Mean, "service-mean", 2*time.Second, "mean service time")
	flags.Float64Var(&f.CV, "service-cv", 1, "standard deviation of lognormal service times ÷ mean")
}

// traceFlags are those that make a workload of a trace.
type traceFlags struct{ simulation.TraceOptions }

func (f *traceFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Missing, "missing-service", simulation.MissingMedian,
		"a trace's documents without a service time: median of the others, draw (see -service), or drop")
	flags.DurationVar(&f.Cap, "service-cap", time.Minute, "shorten a trace's longer service times to this; 0: leave them")
	flags.IntVar(&f.LightDocuments, "light", 20, "a light customer has at most so many documents in the trace")
}

// openTrace reads a trace from a file, or from the standard input if that is "-".
func openTrace(name string, stdin io.Reader) (*simulation.Trace, error) {
	if name == "-" {
		return simulation.ReadTrace("standard input", stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return simulation.ReadTrace(name, file)
}
