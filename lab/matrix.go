package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/docpriority/priority/lab/internal/report"
	"github.com/docpriority/priority/lab/internal/simulation"
)

const matrixHelp = `Matrix lets the documents of scenarios, and of a trace, wait for servers in virtual time, by
every way to schedule. It prints what each regime is about, in seconds but for Jain's index,
shares and ratios, as the mean over the seeds with half its 95 %% confidence interval, and how
far each way is from ideal.

- "ideal" is the best of four schedulers that know the customers' queues or what documents
  cost, which no level at arrival knows: round-robin, stride, fair-share and least-in-flight.
- The score is the geometric mean, over all figures, of how many times worse than ideal
  they are; to be better than ideal counts as 1.
- Scenarios that are about an option of the module have tables of their own, and are in no
  score.

A trace is CSV, plain or gzipped, sorted by time, with or without the header
submitted_ms,customer,service_ms; - is the standard input.

What it compares by default; docs/decide.md has the sources of other products' rules:

%s
Of a name's parts, /22 are the default loads of so many levels, beyond six with turns; +cost gives
Submit each document's service time, +delay when it is due; +accounts and +order are options of the
module; @345 joins levels 1 to 3, 4, 5, and the others; :8:4:2:1 are
weights of consumers, as of queue.Picker, and :random:8:4:2:1 the same at random, as asynq takes them.

`

// matrix is what the command's flags say.
type matrix struct {
	traceFlags
	scenarios  listFlag
	schedulers listFlag
	servers    listFlag
	seeds      int
}

func newMatrix(flags *flag.FlagSet) (action, string) {
	m := &matrix{schedulers: simulation.MatrixSchedulers(), servers: listFlag{"10", "12", "14"}}
	flags.Var(&m.scenarios, "scenario", "which `scenarios`, separated by commas (default: all above)")
	flags.Var(&m.schedulers, "schedulers", "which `schedulers` to show")
	flags.Var(&m.servers, "servers", "how many documents of a trace are served at once; several `numbers`, one after the other")
	flags.IntVar(&m.seeds, "seeds", 20, "how many seeds")
	m.register(flags)
	var orders strings.Builder
	for _, order := range simulation.Orders() {
		fmt.Fprintf(&orders, "  %s: %s\n", order.Scheduler, cmp.Or(order.Of, "an ideal"))
	}
	return m.run, fmt.Sprintf(matrixHelp, &orders) + scenarioList()
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
	return report.Matrices{All: compared, Seeds: m.seeds}.WriteTables(with.stdout)
}

// regimes returns what is to be compared.
func (m *matrix) regimes(with terminal, args []string) (regimes []simulation.Regime, err error) {
	if len(args) > 1 {
		return nil, wrongCall(errors.New("it takes one trace at most"))
	}
	scenarios := simulation.Scenarios()
	if len(m.scenarios) > 0 {
		scenarios = nil
	}
	for _, name := range m.scenarios {
		scenario, err := simulation.FindScenario(name)
		if err != nil {
			return nil, wrongCall(err)
		}
		scenarios = append(scenarios, scenario)
	}
	for _, scenario := range scenarios {
		regime := scenario.Regime()
		regime.Seeds = m.seeds
		regimes = append(regimes, regime)
	}
	if len(args) == 0 {
		return regimes, m.validate(regimes)
	}
	recorded, err := m.read(with, args[0])
	if err != nil {
		return nil, err
	}
	seeds := m.seeds
	if !recorded.Random() {
		seeds = 1 // all would be alike
	}
	for _, text := range m.servers {
		servers, err := strconv.Atoi(text)
		if err != nil {
			return nil, wrongCall(fmt.Errorf("%q is no number of servers", text))
		}
		regime := recorded.Regime(servers, m.trace)
		regime.Seeds = seeds
		regimes = append(regimes, regime)
	}
	return regimes, m.validate(regimes)
}

func (m *matrix) validate(regimes []simulation.Regime) error {
	for _, regime := range regimes {
		shown := regime.Experiment
		if shown.Schedulers == nil {
			shown.Schedulers = m.schedulers
		}
		if err := shown.Validate(); err != nil {
			return wrongCall(err)
		}
	}
	return nil
}
