package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/docpriority/priority/lab/internal/report"
	"github.com/docpriority/priority/lab/internal/simulation"
)

const matrixHelp = `Matrix runs every way to schedule under every regime: the scenarios below that are about
a figure, and a trace on 10, 12 and 14 servers. It prints that figure, in seconds but for
Jain's index and the smallest share, as the mean over the seeds with half its 95 %%
confidence interval, and how far each way is from ideal.

- "ideal" is the best of five schedulers that know the customers' queues or what documents
  cost, which no level at arrival knows: round-robin, deficit, stride, fair-share and
  least-in-flight.
- The score is the geometric mean, over all figures, of how many times worse than ideal
  they are; to be better than ideal counts as 1.

What it compares by default; docs/decide.md has the sources of other products' rules:

%s
Of a name's parts, /22 are the default loads of so many levels, beyond six with turns; +cost gives
Submit each document's service time; @345 joins levels 1 to 3, 4, 5, and the others; :8:4:2:1 are
weights of consumers, as of queue.Picker, and :random:8:4:2:1 the same at random, as asynq takes them.

`

// matrixServers are the numbers of servers that a trace is served by.
var matrixServers = []int{10, 12, 14}

// matrix is what the command's flags say.
type matrix struct {
	traceFlags
	scenarios  listFlag
	schedulers listFlag
	seeds      int
}

func newMatrix(flags *flag.FlagSet) (action, string) {
	m := &matrix{schedulers: simulation.MatrixSchedulers()}
	flags.Var(&m.scenarios, "scenario", "which `scenarios`, separated by commas (default: all above)")
	flags.Var(&m.schedulers, "schedulers", "which `schedulers` to show")
	flags.IntVar(&m.seeds, "seeds", 20, "how many seeds")
	m.register(flags)
	var orders strings.Builder
	for _, order := range simulation.Orders() {
		fmt.Fprintf(&orders, "  %s: %s\n", order.Scheduler, cmp.Or(order.Of, "an ideal"))
	}
	return m.run, fmt.Sprintf(matrixHelp, &orders) + scenarioList(matrixScenarios())
}

// matrixScenarios are those that are about a figure.
func matrixScenarios() []simulation.Scenario {
	return slices.DeleteFunc(simulation.Scenarios(), func(s simulation.Scenario) bool { return len(s.Figures) == 0 })
}

func (m *matrix) run(ctx context.Context, with terminal, args []string) error {
	regimes, err := m.regimes(with, args)
	if err != nil {
		return err
	}
	compared, err := simulation.Compete(ctx, regimes, m.schedulers)
	if err != nil {
		return err
	}
	result := report.Matrix{Matrix: compared, Seeds: m.seeds}
	return result.WriteTable(with.stdout)
}

// regimes returns what is to be compared.
func (m *matrix) regimes(with terminal, args []string) (regimes []simulation.Regime, err error) {
	if len(args) > 1 {
		return nil, wrongCall(errors.New("it takes one trace at most"))
	}
	known := make(map[string]bool)
	for _, scenario := range matrixScenarios() {
		known[scenario.Name] = true
		if len(m.scenarios) == 0 || slices.Contains(m.scenarios, scenario.Name) {
			regimes = append(regimes, scenario.Regime())
		}
	}
	for _, name := range m.scenarios {
		if !known[name] {
			return nil, wrongCall(fmt.Errorf("the matrix has no scenario %q", name))
		}
	}
	for i := range regimes {
		regimes[i].Seeds = m.seeds
		shown := regimes[i].Experiment
		shown.Schedulers = m.schedulers
		if err := shown.Validate(); err != nil {
			return nil, wrongCall(err)
		}
	}
	if len(args) == 0 {
		return regimes, nil
	}
	recorded, err := m.read(with, args[0])
	if err != nil {
		return nil, err
	}
	seeds := m.seeds
	if !recorded.Random() {
		seeds = 1 // all would be alike
	}
	for _, servers := range matrixServers {
		regime := recorded.Regime(servers, m.trace)
		regime.Seeds = seeds
		regimes = append(regimes, regime)
	}
	return regimes, nil
}
