package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/report"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// allScenarios is what -scenario says for all of them.
const allScenarios = "all"

// simulate is what the command is told.
type simulate struct {
	scenarios []string
	options   simulation.Options
	policy    policyFlags
	service   serviceFlags
	trace     traceFlags
	lostDone  float64
	flood     int
	seeds     int
	seed      uint64
	asJSON    bool
	html      string
}

func newSimulate() *cobra.Command {
	var s simulate
	long := simulateLong
	for _, scenario := range simulation.Scenarios() {
		long += inList(scenario)
	}
	command := &cobra.Command{
		Use:   "simulate {-scenario NAME[,NAME…] | trace.csv[.gz] | -}",
		Short: "Shows who waits how long, by the module and by other ways",
		Long:  long,
		Args:  cobra.MaximumNArgs(1),
		RunE:  s.run,
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&s.scenarios, "scenario", nil, "scenarios from the list above, separated by commas, or all")
	flags.IntVar(&s.options.Servers, "servers", 16, "how many documents are served at once (default: the scenario's, or 16)")
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
	flags.BoolVar(&s.asJSON, "json", false, "print one JSON object a line, one for each scenario")
	flags.StringVar(&s.html, "html", "", "write a page with pictures to this file, for readers who do not run this command")
	return command
}

func (s *simulate) run(command *cobra.Command, args []string) error {
	subjects, err := s.subjects(command, args)
	if err != nil {
		return wrongCall(err)
	}
	results, err := simulated(command, subjects)
	if err != nil {
		return err
	}
	if s.html != "" {
		page := report.Page{Command: calledAs(command, args), Simulations: results}
		if err := writeFile(s.html, page.WriteHTML); err != nil {
			return err
		}
	}
	return s.print(command.OutOrStdout(), results)
}

// subject is what is simulated.
type subject struct {
	simulation.Experiment
	about report.About
}

// simulated runs all of them, one after the other.
func simulated(command *cobra.Command, subjects []subject) (results []report.Simulation, err error) {
	bar := report.NewProgress(command.ErrOrStderr())
	defer bar.Clear()
	runs, before := 0, 0
	for _, s := range subjects {
		runs += s.Seeds * len(s.Schedulers)
	}
	for _, s := range subjects {
		s.Progress = func(done, _ int) { bar.Show(before+done, runs) }
		outcomes, err := s.Run(command.Context())
		if err != nil {
			return nil, err
		}
		before += s.Seeds * len(s.Schedulers)
		results = append(results, report.Simulation{
			About:    s.about,
			Options:  s.Options,
			Seeds:    s.Seeds,
			Outcomes: outcomes,
			Results:  simulation.Compare(s.Targets, outcomes),
		})
	}
	return results, nil
}

func (s *simulate) print(to io.Writer, results []report.Simulation) error {
	for i, result := range results {
		write := result.WriteTable
		if s.asJSON {
			write = result.WriteJSON
		} else if i > 0 {
			fmt.Fprint(to, "\n\n")
		}
		if err := write(to); err != nil {
			return err
		}
	}
	return nil
}

// subjects returns what is to be simulated: some scenarios, or a trace.
func (s *simulate) subjects(command *cobra.Command, args []string) (subjects []subject, err error) {
	if err := checkSeeds(s.seeds); err != nil {
		return nil, err
	}
	if s.flood < 0 || s.flood > 100_000_000 {
		return nil, fmt.Errorf("a flood of %d documents is not from 0 to 100,000,000", s.flood)
	}
	if err := s.service.Validate(); err != nil {
		return nil, err
	}
	if s.options.Policy, err = s.policy.policy(); err != nil {
		return nil, err
	}
	if (len(s.scenarios) == 0) == (len(args) == 0) {
		return nil, errors.New("simulate takes either -scenario or a trace; see simulate -help")
	}
	if len(args) > 0 {
		subjects = make([]subject, 1)
		subjects[0], err = s.ofTrace(command, args[0])
	} else {
		subjects, err = s.ofScenarios(command)
	}
	if err != nil {
		return nil, err
	}
	for i := range subjects {
		e := &subjects[i].Experiment
		if s.lostDone >= 0 {
			e.LostDone = s.lostDone
		}
		if len(e.Schedulers) == 0 {
			e.Schedulers = simulation.Schedulers()
		}
		if err := e.Validate(); err != nil {
			return nil, err
		}
	}
	return subjects, nil
}

// experiment is what all subjects have in common.
func (s *simulate) experiment() simulation.Experiment {
	return simulation.Experiment{Options: s.options, FirstSeed: s.seed, Seeds: s.seeds}
}

func (s *simulate) ofScenarios(command *cobra.Command) (subjects []subject, err error) {
	scenarios := simulation.Scenarios()
	if !slices.Equal(s.scenarios, []string{allScenarios}) {
		scenarios = nil
		for i, name := range s.scenarios {
			if slices.Contains(s.scenarios[:i], name) {
				return nil, fmt.Errorf("-scenario has %q twice", name)
			}
			scenario, err := simulation.FindScenario(name)
			if err != nil {
				return nil, err
			}
			scenarios = append(scenarios, scenario)
		}
	}
	for _, scenario := range scenarios {
		subjects = append(subjects, s.ofScenario(command, scenario))
	}
	return subjects, nil
}

func (s *simulate) ofScenario(command *cobra.Command, scenario simulation.Scenario) subject {
	e := s.experiment()
	e.LostDone, e.Targets = scenario.LostDone, scenario.Targets
	if len(e.Schedulers) == 0 {
		e.Schedulers = scenario.Schedulers
	}
	if scenario.Servers > 0 && !command.Flags().Changed("servers") {
		e.Servers = scenario.Servers
	}
	demand := simulation.Demand{Servers: e.Servers, Service: s.service.ServiceTime, Flood: s.flood}
	e.Workload = func(seed uint64) *simulation.Workload { return scenario.Workload(demand, seed) }
	return subject{e, report.About{Name: scenario.Name, Summary: scenario.Summary, Service: s.service.ServiceTime.String()}}
}

func (s *simulate) ofTrace(command *cobra.Command, name string) (subject, error) {
	recorded, options, err := s.trace.read(command, name, s.service.ServiceTime)
	if err != nil {
		return subject{}, err
	}
	e := s.experiment()
	if !recorded.Random(options) && s.lostDone <= 0 {
		e.Seeds = 1 // all would be alike
	}
	e.Workload = func(seed uint64) *simulation.Workload { return recorded.Workload(options, seed) }
	return subject{e, aboutTrace(name, recorded.Workload(options, s.seed), options)}, nil
}

func aboutTrace(name string, w *simulation.Workload, options simulation.TraceOptions) report.About {
	load, documents, customers := w.Load()
	about := report.About{
		Name: filepath.Base(name),
		Summary: fmt.Sprintf("%d documents of %d customers, work for %.1f servers; light customers have at most %d documents",
			documents, customers, load, options.LightDocuments),
		Service:  "the trace's service",
		Recorded: true,
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

// calledAs is the command line, but for the folders of files: a page is given to
// others.
func calledAs(command *cobra.Command, args []string) string {
	words := strings.Fields(command.CommandPath())
	command.Flags().Visit(func(flag *pflag.Flag) {
		value := flag.Value.String()
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		switch flag.Name {
		case "json":
			return // another form of the same
		case "html":
			value = filepath.Base(value)
		}
		words = append(words, quoted("-"+flag.Name+"="+value))
	})
	for _, arg := range args {
		words = append(words, quoted(filepath.Base(arg)))
	}
	return strings.Join(words, " ")
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if strings.Trim(word, "-=,.:/+_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
