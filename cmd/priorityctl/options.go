package main

import (
	"errors"
	"io/fs"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/docpriority/priority/internal/trace"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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

// read reads a trace, and says how it is made a workload. A file that cannot be read
// is a wrong call; what is wrong in it is not.
func (f *traceFlags) read(command *cobra.Command, name string, service simulation.ServiceTime) (*simulation.Trace, simulation.TraceOptions, error) {
	options := f.TraceOptions
	options.Service = service
	if err := options.Validate(); err != nil {
		return nil, options, statusError{exitUsage, err}
	}
	recorded, err := simulation.ReadTrace(trace.Open(name, command.InOrStdin()))
	var unreadable *fs.PathError
	switch {
	case errors.As(err, &unreadable):
		err = statusError{exitUsage, err}
	case err != nil:
		err = statusError{exitFailed, err}
	}
	return recorded, options, err
}
