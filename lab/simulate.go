package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/docpriority/priority/lab/internal/report"
	"github.com/docpriority/priority/lab/internal/simulation"
)

const simulateHelp = `Simulate lets the documents of a scenario or of a trace wait for servers in virtual
time, by the module's levels and by other ways to schedule, and reports who waits how
long: the mean over the seeds, with its 95 % confidence interval. Of the module's levels,
"rule" is what Next returns, and "submit" what Submit returns if Done is called at the
end of each service.

A trace is CSV, plain or gzipped, sorted by time, with or without the header
submitted_ms,customer,service_ms; - is the standard input.

`

// simulate is what the command's flags say.
type simulate struct {
	traceFlags
	scenarios      listFlag
	servers, seeds int
}

func newSimulate(flags *flag.FlagSet) (action, string) {
	s := new(simulate)
	flags.Var(&s.scenarios, "scenario", "`scenarios` from the list above, separated by commas")
	flags.IntVar(&s.servers, "servers", 16, "how many documents of a trace are served at once")
	flags.IntVar(&s.seeds, "seeds", 10, "how many seeds")
	s.register(flags)
	return s.run, simulateHelp + scenarioList(simulation.Scenarios())
}

func (s *simulate) run(ctx context.Context, with terminal, args []string) error {
	subjects, err := s.subjects(with, args)
	if err != nil {
		return err
	}
	for i, subject := range subjects {
		outcomes, err := subject.Run(ctx)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprint(with.stdout, "\n\n")
		}
		subject.Outcomes = outcomes
		if err := subject.WriteTable(with.stdout); err != nil {
			return err
		}
	}
	return nil
}

// subjects returns what is to be simulated: some scenarios, or a trace.
func (s *simulate) subjects(with terminal, args []string) (subjects []report.Simulation, err error) {
	if (len(s.scenarios) > 0) == (len(args) == 1) || len(args) > 1 {
		return nil, wrongCall(errors.New("it takes either -scenario or one trace"))
	}
	add := func(e simulation.Experiment, about report.About) error {
		e.Seeds = s.seeds
		if len(e.Schedulers) == 0 {
			e.Schedulers = simulation.Schedulers()
		}
		subjects = append(subjects, report.Simulation{Experiment: e, About: about})
		return e.Validate()
	}
	for _, name := range s.scenarios {
		scenario, err := simulation.FindScenario(name)
		if err == nil {
			err = add(scenario.Regime().Experiment, report.About{Name: name, Summary: scenario.Summary, Service: simulation.ServiceTimes})
		}
		if err != nil {
			return nil, wrongCall(err)
		}
	}
	for _, name := range args {
		recorded, err := s.read(with, name)
		if err != nil {
			return nil, err
		}
		if !recorded.Random() {
			s.seeds = 1 // all would be alike
		}
		if err := add(recorded.Regime(s.servers, s.trace).Experiment, aboutTrace(name, recorded, s.trace)); err != nil {
			return nil, wrongCall(err)
		}
	}
	return subjects, nil
}

func aboutTrace(name string, recorded *simulation.Trace, options simulation.TraceOptions) report.About {
	load, documents, customers := recorded.Workload(options, 1).Load()
	about := report.About{
		Name: filepath.Base(name),
		Summary: fmt.Sprintf("%d documents of %d customers, work for %.1f servers; light customers have at most %d documents",
			documents, customers, load, options.LightDocuments),
		Service: "the trace's service",
	}
	if options.Cap > 0 {
		about.Service += fmt.Sprintf(", capped at %v", options.Cap.Round(time.Millisecond))
	}
	if recorded.Random() {
		about.Service += ", unknown ones drawn: " + simulation.ServiceTimes
	}
	return about
}
