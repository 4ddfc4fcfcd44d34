package main

import (
	"fmt"

	"github.com/docpriority/priority/cmd/priorityctl/internal/report"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/docpriority/priority/internal/trace"
	"github.com/spf13/cobra"
)

const tuneLong = `Tune replays a trace under many policies, counted by Next and by Submit, and
prints, as Go code, the one under which the light customers' 99th percentile of
the wait is the shortest while neither the heavy customers' mean wait nor the worst
tenth of the customers (the 90th percentile of their mean waits) is more than
-heavy-cost longer than now. "Now" is what the flags -counting, -thresholds,
-reset-interval and -reset say.

What is found fits the past that it was found on: check it on another trace.`

// tune is what the command is told.
type tune struct {
	options   simulation.Options
	policy    policyFlags
	service   serviceFlags
	trace     traceFlags
	counting  string
	heavyCost float64
	seed      uint64
	asJSON    bool
}

func newTune() *cobra.Command {
	var t tune
	command := &cobra.Command{
		Use:   "tune {trace.csv[.gz] | -}",
		Short: "Searches the policy that a trace's light customers wait least under",
		Long:  tuneLong,
		Args:  cobra.ExactArgs(1),
		RunE:  t.run,
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.IntVar(&t.options.Servers, "servers", 16, "how many documents are served at once")
	flags.Float64Var(&t.heavyCost, "heavy-cost", 0.1, "how much longer the heavy customers, and the worst tenth, may wait: 0.1 is 10 %")
	flags.StringVar(&t.counting, "counting", simulation.Rule, "what is called now: rule (Next) or submit (Submit and Done)")
	t.policy.register(flags)
	flags.DurationVar(&t.options.Lease, "lease", 0, "how long a submitted document without a Done is pending; 0: the module's default")
	flags.StringVar(&t.options.Discipline, "discipline", simulation.Strict,
		"how consumers take levels: strict, linear, halving, or weights as 8,4,2,1")
	t.service.register(flags)
	t.trace.register(flags)
	flags.Uint64Var(&t.seed, "seed", 1, "of the service times that are drawn")
	flags.BoolVar(&t.asJSON, "json", false, "print one JSON object")
	return command
}

func (t *tune) run(command *cobra.Command, args []string) error {
	var err error
	if t.options.Policy, err = t.policy.policy(); err != nil {
		return err
	}
	if t.counting != simulation.Rule && t.counting != simulation.Submit {
		return fmt.Errorf("-counting is %s or %s, not %q", simulation.Rule, simulation.Submit, t.counting)
	}
	if !(t.heavyCost >= 0) {
		return fmt.Errorf("-heavy-cost %v is negative", t.heavyCost)
	}
	t.options.Schedulers = []string{t.counting}
	options := t.trace.TraceOptions
	options.Service = t.service.ServiceTime
	if err := options.Validate(); err != nil {
		return err
	}
	recorded, err := simulation.ReadTrace(trace.Open(args[0], command.InOrStdin()))
	if err != nil {
		return err
	}
	work := recorded.Workload(options, t.seed)
	bar := report.NewProgress(command.ErrOrStderr())
	now, best, err := simulation.Tuning{
		Workload:  work,
		Options:   t.options,
		Counting:  t.counting,
		HeavyCost: t.heavyCost,
		Progress:  bar.Show,
	}.Run(command.Context())
	bar.Clear()
	if err != nil {
		return err
	}
	result := report.Tuning{About: aboutTrace(args[0], work, options), Options: t.options, HeavyCost: t.heavyCost, Now: now, Best: best}
	if t.asJSON {
		return result.WriteJSON(command.OutOrStdout())
	}
	return result.WriteText(command.OutOrStdout())
}
