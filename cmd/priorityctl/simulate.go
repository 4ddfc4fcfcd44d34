package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/report"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/docpriority/priority/internal/trace"
	"github.com/spf13/cobra"
)

const simulateLong = `Simulate lets the documents of a scenario or of a trace wait for servers in
virtual time, by the module's levels and by other ways to schedule, and reports
who waits how long: the mean over the seeds, with the 95 % confidence interval of
it. Of the module's levels, rule is what Next returns, and submit what Submit
returns where Done is called at the end of each service.

A trace is CSV, plain or gzipped, sorted by time, with or without the header
submitted_ms,customer,service_ms; - is the standard input.

Scenarios:
`

// simulate is what the command is told.
type simulate struct {
	scenario string
	options  simulation.Options
	policy   policyFlags
	service  serviceFlags
	trace    traceFlags
	lostDone float64
	flood    int
	seeds    int
	seed     uint64
	asJSON   bool
	html     string
}

func newSimulate() *cobra.Command {
	var s simulate
	long := simulateLong
	for _, scenario := range simulation.Scenarios() {
		long += fmt.Sprintf("  %-17s %s\n", scenario.Name, scenario.Summary)
	}
	command := &cobra.Command{
		Use:   "simulate {-scenario name | trace.csv[.gz] | -}",
		Short: "Shows who waits how long, under the module and other ways to schedule",
		Long:  long,
		Args:  cobra.MaximumNArgs(1),
		RunE:  s.run,
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&s.scenario, "scenario", "", "a scenario from the list above")
	flags.IntVar(&s.options.Servers, "servers", 16, "how many documents are served at once")
	flags.StringSliceVar(&s.options.Schedulers, "schedulers", nil,
		"which to compare (default: the scenario's, or all); rule:linear is the rule with linear consumers")
	flags.StringVar(&s.options.Discipline, "discipline", simulation.Strict,
		"how consumers take levels: strict, linear, halving, or weights as 8,4,2,1")
	s.policy.register(flags)
	flags.DurationVar(&s.options.Lease, "lease", 0, "how long a submitted document without a Done is pending; 0: the module's default")
	flags.Float64Var(&s.lostDone, "lost-done", -1, "share of the Dones that are lost (default: the scenario's, or 0)")
	flags.IntVar(&s.flood, "flood", 0, "documents of the flood (default: the scenario's)")
	s.service.register(flags)
	s.trace.register(flags)
	flags.IntVar(&s.seeds, "seeds", 10, "how many seeds")
	flags.Uint64Var(&s.seed, "seed", 1, "the first of them")
	flags.BoolVar(&s.asJSON, "json", false, "print one JSON object")
	flags.StringVar(&s.html, "html", "", "write a report with plots to this file")
	return command
}

func (s *simulate) run(command *cobra.Command, args []string) error {
	experiment, about, err := s.experiment(command, args)
	if err != nil {
		return err
	}
	bar := report.NewProgress(command.ErrOrStderr())
	experiment.Progress = bar.Show
	outcomes, err := experiment.Run(command.Context())
	bar.Clear()
	if err != nil {
		return err
	}
	result := report.Simulation{
		About:    about,
		Options:  experiment.Options,
		Seeds:    experiment.Seeds,
		Outcomes: outcomes,
		Results:  simulation.Compare(experiment.Targets, outcomes),
	}
	if s.html != "" {
		if err := writeFile(s.html, result.WriteHTML); err != nil {
			return err
		}
	}
	if s.asJSON {
		return result.WriteJSON(command.OutOrStdout())
	}
	return result.WriteTable(command.OutOrStdout())
}

// experiment returns what is to be done, and what it is about.
func (s *simulate) experiment(command *cobra.Command, args []string) (e simulation.Experiment, about report.About, err error) {
	if s.seeds < 1 || s.seeds > 10_000 {
		return e, about, fmt.Errorf("%d seeds are not from 1 to 10,000", s.seeds)
	}
	if s.flood < 0 || s.flood > 100_000_000 {
		return e, about, fmt.Errorf("a flood of %d documents is not from 0 to 100,000,000", s.flood)
	}
	if err := s.service.Validate(); err != nil {
		return e, about, err
	}
	if s.options.Policy, err = s.policy.policy(); err != nil {
		return e, about, err
	}
	e = simulation.Experiment{Options: s.options, FirstSeed: s.seed, Seeds: s.seeds}
	switch {
	case (s.scenario == "") == (len(args) == 0):
		return e, about, errors.New("simulate takes either -scenario or a trace; see simulate -help")
	case s.scenario != "":
		about, err = s.useScenario(&e)
	default:
		about, err = s.useTrace(&e, command, args[0])
	}
	if err != nil {
		return e, about, err
	}
	if s.lostDone >= 0 {
		e.LostDone = s.lostDone
	}
	if len(e.Schedulers) == 0 {
		e.Schedulers = simulation.Schedulers()
	}
	return e, about, e.Validate()
}

func (s *simulate) useScenario(e *simulation.Experiment) (report.About, error) {
	scenario, err := simulation.FindScenario(s.scenario)
	if err != nil {
		return report.About{}, err
	}
	e.LostDone, e.Targets = scenario.LostDone, scenario.Targets
	if len(e.Schedulers) == 0 {
		e.Schedulers = scenario.Schedulers
	}
	demand := simulation.Demand{Servers: e.Servers, Service: s.service.ServiceTime, Flood: s.flood}
	e.Workload = func(seed uint64) *simulation.Workload { return scenario.Workload(demand, seed) }
	return report.About{Name: scenario.Name, Summary: scenario.Summary, Service: s.service.ServiceTime.String()}, nil
}

func (s *simulate) useTrace(e *simulation.Experiment, command *cobra.Command, name string) (report.About, error) {
	options := s.trace.TraceOptions
	options.Service = s.service.ServiceTime
	if err := options.Validate(); err != nil {
		return report.About{}, err
	}
	recorded, err := simulation.ReadTrace(trace.Open(name, command.InOrStdin()))
	if err != nil {
		return report.About{}, err
	}
	if !recorded.Random(options) && s.lostDone <= 0 {
		e.Seeds = 1 // all would be alike
	}
	e.Workload = func(seed uint64) *simulation.Workload { return recorded.Workload(options, seed) }
	return aboutTrace(name, recorded.Workload(options, s.seed), options), nil
}

func aboutTrace(name string, w *simulation.Workload, options simulation.TraceOptions) report.About {
	load, documents, customers := w.Load()
	about := report.About{
		Name: filepath.Base(name),
		Summary: fmt.Sprintf("%d documents of %d customers, work for %.1f servers; light customers have at most %d documents",
			documents, customers, load, options.LightDocuments),
		Service: "the trace's service",
	}
	if options.Cap > 0 {
		about.Service += fmt.Sprintf(", capped at %v", options.Cap.Round(time.Millisecond))
	}
	return about
}

// writeFile creates a file, or replaces it.
func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
