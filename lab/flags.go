package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/docpriority/priority/lab/internal/simulation"
)

// traceFlags say how a trace is read.
type traceFlags struct{ trace simulation.TraceOptions }

func (f *traceFlags) register(flags *flag.FlagSet) {
	flags.DurationVar(&f.trace.Cap, "service-cap", time.Minute, "shorten a trace's longer service times to this; 0: leave them")
	flags.UintVar(&f.trace.LightDocuments, "light", 20, "a light customer has at most this many documents in the trace")
}

// read reads a trace. A file that cannot be opened is a wrong call; what is wrong in it
// is not.
func (f *traceFlags) read(with terminal, name string) (*simulation.Trace, error) {
	recorded, err := simulation.ReadTrace(name, with.stdin)
	if unreadable := (*fs.PathError)(nil); errors.As(err, &unreadable) {
		return nil, wrongCall(err)
	}
	return recorded, err
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
func scenarioList() string {
	var text strings.Builder
	text.WriteString("Scenarios:\n")
	for _, scenario := range simulation.Scenarios() {
		fmt.Fprintf(&text, "  %-18s%s\n", scenario.Name, scenario.Summary)
	}
	return text.String()
}
