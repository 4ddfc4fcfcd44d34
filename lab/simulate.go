package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
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
	modelFlags
	flags      *flag.FlagSet
	scenarios  listFlag
	schedulers listFlag
	seeds      int
	seed       uint64
}

func newSimulate(flags *flag.FlagSet) (action, string) {
	s := &simulate{flags: flags}
	flags.Var(&s.scenarios, "scenario", "`scenarios` from the list above, separated by commas, or all")
	flags.Var(&s.schedulers, "schedulers", "which `schedulers` to compare (default: the scenario's, or all)")
	flags.IntVar(&s.options.Servers, "servers", 16, "how many documents are served at once (default: the scenario's, or 16)")
	flags.IntVar(&s.seeds, "seeds", 10, "how many seeds")
	flags.Uint64Var(&s.seed, "seed", 1, "the first of them")
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
		result := report.Simulation{About: subject.about, Options: subject.Options, Seeds: subject.Seeds, Outcomes: outcomes}
		if err := result.WriteTable(with.stdout); err != nil {
			return err
		}
	}
	return nil
}

// subject is what is simulated.
type subject struct {
	simulation.Experiment
	about report.About
}

// subjects returns what is to be simulated: some scenarios, or a trace.
func (s *simulate) subjects(with terminal, args []string) (subjects []subject, err error) {
	if err := errors.Join(s.check(), checkSeeds(s.seeds)); err != nil {
		return nil, wrongCall(err)
	}
	switch {
	case len(s.scenarios) > 0 && len(args) == 0:
		subjects, err = s.ofScenarios()
	case len(s.scenarios) == 0 && len(args) == 1:
		subjects, err = s.ofTrace(with, args[0])
	default:
		err = wrongCall(errors.New("it takes either -scenario or one trace"))
	}
	if err != nil {
		return nil, err
	}
	for i := range subjects {
		e := &subjects[i].Experiment
		if len(e.Schedulers) == 0 {
			e.Schedulers = simulation.Schedulers()
		}
		if err := e.Validate(); err != nil {
			return nil, wrongCall(err)
		}
	}
	return subjects, nil
}

// experiment is what all subjects have in common.
func (s *simulate) experiment() simulation.Experiment {
	s.options.Schedulers = s.schedulers
	return simulation.Experiment{Options: s.options, FirstSeed: s.seed, Seeds: s.seeds}
}

func (s *simulate) ofScenarios() (subjects []subject, err error) {
	scenarios := simulation.Scenarios()
	if !slices.Equal(s.scenarios, listFlag{"all"}) {
		scenarios = nil
		for _, name := range s.scenarios {
			scenario, err := simulation.FindScenario(name)
			if err != nil {
				return nil, wrongCall(err)
			}
			scenarios = append(scenarios, scenario)
		}
	}
	servers := false
	s.flags.Visit(func(f *flag.Flag) { servers = servers || f.Name == "servers" })
	for _, scenario := range scenarios {
		e := s.experiment()
		e.LostDone = scenario.LostDone
		if len(e.Schedulers) == 0 {
			e.Schedulers = scenario.Schedulers
		}
		if scenario.Servers > 0 && !servers {
			e.Servers = scenario.Servers
		}
		demand := simulation.Demand{Servers: e.Servers, Service: s.service}
		e.Workload = func(seed uint64) *simulation.Workload { return scenario.Workload(demand, seed) }
		subjects = append(subjects, subject{e, report.About{Name: scenario.Name, Summary: scenario.Summary, Service: s.service.String()}})
	}
	return subjects, nil
}

func (s *simulate) ofTrace(with terminal, name string) ([]subject, error) {
	recorded, err := s.read(with, name)
	if err != nil {
		return nil, err
	}
	e := s.experiment()
	if !recorded.Random() {
		e.Seeds = 1 // all would be alike
	}
	e.Workload = func(seed uint64) *simulation.Workload { return recorded.Workload(s.trace, seed) }
	return []subject{{e, aboutTrace(name, recorded, s.trace, s.seed)}}, nil
}

func aboutTrace(name string, recorded *simulation.Trace, options simulation.TraceOptions, seed uint64) report.About {
	load, documents, customers := recorded.Workload(options, seed).Load()
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
		about.Service += ", unknown ones drawn: " + options.Service.String()
	}
	return about
}
