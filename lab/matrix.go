package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority/lab/internal/report"
	"github.com/docpriority/priority/lab/internal/simulation"
)

const matrixHelp = `Matrix lets the documents of scenarios, and of a trace, wait for servers in
virtual time, by every way to schedule. It prints what each regime is about: in
seconds, but for Jain's index, shares and ratios; as the mean over the seeds,
with half its 95 % confidence interval; and how far each way is from ideal.

- "ideal" is the best of four schedulers that know the customers' queues or what
  documents cost, which no level at arrival knows: round-robin, stride,
  fair-share and least-in-flight.
- The score is the geometric mean, over all figures, of how many times worse
  than ideal they are; to be better than ideal counts as 1.
- Scenarios that are about an option of the module have tables of their own, and
  are in no score.

` + traceFormat + `
The trace "-" is the standard input.

Schedulers (docs/decide.md has the sources of other products' rules):
`

const nameHelp = `
Of a name's parts, /22 are the default loads of so many levels, beyond six with
turns; +cost gives Submit each document's service time, +delay when it is due;
+accounts and +order are options of the module; @345 joins levels 1 to 3, 4, 5,
and the others; :8:4:2:1 are weights of consumers, as of queue.Picker, and
:random:8:4:2:1 the same at random, as asynq takes them.

Scenarios:
`

const traceFormat = `A trace is a log of https://www.cs.huji.ac.il/labs/parallel/workloads/, or CSV:
submitted_ms,customer,service_ms (it may be empty), by time. Either may be .gz.`

// matrix is what the command's flags say.
type matrix struct {
	trace      simulation.TraceOptions
	scenarios  listFlag
	schedulers listFlag
	servers    listFlag
	seeds      int
}

func newMatrix(flags *flag.FlagSet) (action, string) {
	m := &matrix{servers: listFlag{"10", "12", "14"}}
	flags.Var(&m.scenarios, "scenario", "which `scenarios`, separated by commas; none: the trace alone\n(default: all above)")
	flags.Var(&m.schedulers, "schedulers", "which `schedulers` to show (default: all above)")
	flags.Var(&m.servers, "servers", "how many documents of a trace are served at once; several\n`numbers`, one after the other")
	flags.IntVar(&m.seeds, "seeds", 20, "how many seeds")
	flags.DurationVar(&m.trace.Cap, "service-cap", time.Minute, "shorten a trace's longer service times to this; 0: do not")
	flags.UintVar(&m.trace.LightDocuments, "light", 20, "a light customer has at most this many documents in the trace")
	var help strings.Builder
	help.WriteString(matrixHelp)
	for _, order := range simulation.Orders() {
		listed(&help, order.Scheduler, cmp.Or(order.Of, "an ideal"))
	}
	help.WriteString(nameHelp)
	for _, scenario := range simulation.Scenarios() {
		listed(&help, scenario.Name, scenario.Summary)
	}
	return m.run, help.String()
}

// listed writes a name and what it is, in lines that a terminal can show.
func listed(to *strings.Builder, name, what string) {
	line := fmt.Sprintf("  %-17s", name)
	if len(name) > 17 {
		to.WriteString(line + "\n")
		line = strings.Repeat(" ", 19)
	}
	for _, word := range strings.Fields(what) {
		if len(line)+len(word) > 79 {
			to.WriteString(line + "\n")
			line = strings.Repeat(" ", 19)
		}
		line += " " + word
	}
	to.WriteString(line + "\n")
}

func (m *matrix) run(ctx context.Context, with terminal, args []string) error {
	if len(args) > 1 {
		return wrongCall(errors.New("it takes one trace at most"))
	}
	if len(m.schedulers) == 0 {
		m.schedulers = simulation.MatrixSchedulers()
	}
	regimes, err := m.chosen()
	if err != nil {
		return err
	}
	if len(args) == 1 {
		recorded, err := simulation.ReadTrace(args[0], with.stdin)
		if missing := (*fs.PathError)(nil); errors.As(err, &missing) {
			return fmt.Errorf("%w: %w\n%s", err, errUsage, traceFormat)
		}
		if err != nil {
			return err
		}
		of, err := m.traced(recorded)
		if err != nil {
			return err
		}
		regimes = append(regimes, of...)
		load, documents, customers := recorded.Workload(m.trace, 1).Load()
		fmt.Fprintf(with.stdout, "%d documents of %d customers, work for %.1f servers\n", documents, customers, load)
	}
	compared, err := simulation.Compete(ctx, regimes, m.schedulers)
	if err != nil {
		return err
	}
	return report.Matrices{All: compared, Seeds: m.seeds}.WriteTables(with.stdout)
}

// chosen returns the regimes of the scenarios.
func (m *matrix) chosen() (regimes []simulation.Regime, err error) {
	scenarios := simulation.Scenarios()
	if len(m.scenarios) > 0 {
		scenarios = nil
	}
	for _, name := range m.scenarios {
		if name == "none" {
			continue
		}
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
	return regimes, m.validate(regimes)
}

// traced returns the regimes of a trace.
func (m *matrix) traced(recorded *simulation.Trace) (regimes []simulation.Regime, err error) {
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

// listFlag is a flag of names that are separated by commas.
type listFlag []string

// String implements flag.Value.
func (l *listFlag) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *listFlag) Set(text string) error {
	*l = strings.Split(text, ",")
	return nil
}
