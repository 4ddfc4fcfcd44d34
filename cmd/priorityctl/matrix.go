package main

import (
	"fmt"
	"slices"

	"github.com/docpriority/priority/cmd/priorityctl/internal/report"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/spf13/cobra"
)

const matrixLong = `Matrix runs every way to schedule under every regime: the scenarios of simulate,
and a trace on 10, 12 and 14 servers. It prints the figure that each regime is
about, as the mean over the seeds with half the 95 % confidence interval of it,
and how far each way is from ideal.

Ideal is the best, for each figure, of five schedulers that know the customers'
queues, which a level given at arrival cannot: round-robin, deficit, stride,
fair-share and least-in-flight. The oracle is the best of three ways to give
levels at arrival by somebody who knows all that will come. A score is the
geometric mean over all figures of how many times worse than ideal they are, and
1 where they are better.

Scenarios:
`

// matrixServers are the numbers of servers that a trace is served by.
var matrixServers = []int{10, 12, 14}

// matrix is what the command is told.
type matrix struct {
	scenarios  []string
	schedulers []string
	options    simulation.Options
	policy     policyFlags
	service    serviceFlags
	trace      traceFlags
	seeds      int
	seed       uint64
	order      bool
	markdown   bool
	asJSON     bool
}

func newMatrix() *cobra.Command {
	var m matrix
	long := matrixLong
	for _, scenario := range matrixScenarios() {
		long += inList(scenario)
	}
	command := &cobra.Command{
		Use:   "matrix [trace.csv[.gz] | -]",
		Short: "Compares every way to schedule under every regime",
		Long:  long,
		Args:  cobra.MaximumNArgs(1),
		RunE:  m.run,
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&m.scenarios, "scenario", nil, "which scenarios, separated by commas (default: all above)")
	flags.StringSliceVar(&m.schedulers, "schedulers", simulation.Schedulers(),
		"which to show; submit:linear is submit with linear consumers (default: all)")
	flags.Lookup("schedulers").DefValue = "[]" // it is too long for the help
	flags.StringVar(&m.options.Discipline, "discipline", simulation.Strict,
		"how consumers take levels: strict, linear, halving, patience=10m, or weights as 8,4,2,1")
	m.policy.register(flags)
	flags.DurationVar(&m.options.Lease, "lease", 0, "how long a submitted document without a Done is pending at most; 0: the module's default")
	m.service.register(flags)
	m.trace.register(flags)
	flags.IntVar(&m.seeds, "seeds", 20, "how many seeds")
	flags.Uint64Var(&m.seed, "seed", 1, "the first of them")
	flags.BoolVar(&m.order, "order", false, "print who overtakes and who waits longest instead")
	flags.BoolVar(&m.markdown, "markdown", false, "print a table in Markdown")
	flags.BoolVar(&m.asJSON, "json", false, "print one JSON object")
	command.MarkFlagsMutuallyExclusive("json", "markdown")
	command.MarkFlagsMutuallyExclusive("json", "order")
	return command
}

// matrixScenarios are those that are about a figure.
func matrixScenarios() []simulation.Scenario {
	return slices.DeleteFunc(simulation.Scenarios(), func(s simulation.Scenario) bool { return len(s.Figures) == 0 })
}

func (m *matrix) run(command *cobra.Command, args []string) error {
	regimes, err := m.regimes(command, args)
	if err != nil {
		return wrongCall(err)
	}
	bar := report.NewProgress(command.ErrOrStderr())
	compared, err := simulation.Compete(command.Context(), regimes, m.schedulers, bar.Show)
	bar.Clear()
	if err != nil {
		return err
	}
	result := report.Matrix{Matrix: compared, Options: m.options, Service: m.service.ServiceTime.String(), Seeds: m.seeds}
	write := result.WriteTable
	switch {
	case m.asJSON:
		write = result.WriteJSON
	case m.markdown && m.order:
		write = result.WriteOrderMarkdown
	case m.markdown:
		write = result.WriteMarkdown
	case m.order:
		write = result.WriteOrder
	}
	return write(command.OutOrStdout())
}

// regimes returns what is to be compared.
func (m *matrix) regimes(command *cobra.Command, args []string) (regimes []simulation.Regime, err error) {
	if err := checkSeeds(m.seeds); err != nil {
		return nil, err
	}
	if err := m.service.Validate(); err != nil {
		return nil, err
	}
	if m.options.Policy, err = m.policy.policy(); err != nil {
		return nil, err
	}
	known := make(map[string]bool)
	for _, scenario := range matrixScenarios() {
		known[scenario.Name] = true
		if len(m.scenarios) == 0 || slices.Contains(m.scenarios, scenario.Name) {
			regimes = append(regimes, scenario.Regime(m.options, m.service.ServiceTime))
		}
	}
	for _, name := range m.scenarios {
		if !known[name] {
			return nil, fmt.Errorf("the matrix has no scenario %q; see matrix -help", name)
		}
	}
	for i := range regimes {
		regimes[i].FirstSeed, regimes[i].Seeds = m.seed, m.seeds
		shown := regimes[i].Options
		shown.Schedulers = m.schedulers
		if err := shown.Validate(); err != nil {
			return nil, err
		}
	}
	if len(args) == 0 {
		return regimes, nil
	}
	ofTrace, err := m.traceRegimes(command, args[0])
	return append(regimes, ofTrace...), err
}

func (m *matrix) traceRegimes(command *cobra.Command, name string) (regimes []simulation.Regime, err error) {
	recorded, how, err := m.trace.read(command, name, m.service.ServiceTime)
	if err != nil {
		return nil, err
	}
	seeds := m.seeds
	if !recorded.Random(how) {
		seeds = 1 // all would be alike
	}
	options := m.options
	for _, options.Servers = range matrixServers {
		regime := recorded.Regime(options, how)
		regime.FirstSeed, regime.Seeds = m.seed, seeds
		regimes = append(regimes, regime)
	}
	return regimes, nil
}

func checkSeeds(seeds int) error {
	if seeds < 1 || seeds > 10_000 {
		return fmt.Errorf("%d seeds are not from 1 to 10,000", seeds)
	}
	return nil
}
