package main

import (
	"fmt"

	"github.com/docpriority/priority/cmd/priorityctl/internal/report"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/spf13/cobra"
)

const tuneLong = `Tune replays a trace and says whether Next or Submit (with Done) serves its
customers better, and with which policy. It chooses policies on the first two
thirds of the trace's time, and judges on the last third, which it holds back: only
a difference that shows there, and is more than luck, counts. It prints the waits,
the verdict, and the Go lines to paste.

Two waits decide: the 99th percentile of the light customers' (see -light), and that
of the worst tenth of all customers (the 90th percentile of their mean waits). One
must become shorter and the other not longer. What others no longer wait for, the
heavy customers wait for, at most -heavy-cost longer than now. "Now" is what the
flags -counting, -thresholds, -reset-interval and -reset-mode say. What makes no
difference is left as it is.

-servers must be as many documents as your workers process at once: with too many
nobody waits, and nothing makes a difference.`

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
		Short: "Says whether Next or Submit serves a trace's customers better",
		Long:  tuneLong,
		Args:  cobra.ExactArgs(1),
		RunE:  t.run,
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.IntVar(&t.options.Servers, "servers", 16, "how many documents are served at once")
	flags.Float64Var(&t.heavyCost, "heavy-cost", 2, "how much longer than now the heavy customers may wait on average: 2 is three times as long")
	flags.StringVar(&t.counting, "counting", simulation.Rule, "what is called now: rule (Next) or submit (Submit and Done)")
	t.policy.register(flags)
	flags.DurationVar(&t.options.Lease, "lease", 0, "how long a submitted document without a Done is pending; 0: the module's default")
	flags.StringVar(&t.options.Discipline, "discipline", simulation.Strict,
		"how consumers take levels: strict, linear, halving, or weights as 8,4,2,1")
	t.service.register(flags)
	t.trace.register(flags)
	flags.Uint64Var(&t.seed, "seed", 1, "of the service times that are drawn, and of the intervals")
	flags.BoolVar(&t.asJSON, "json", false, "print one JSON object")
	return command
}

// check sets the options by the flags.
func (t *tune) check() (err error) {
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
	return t.options.Validate()
}

func (t *tune) run(command *cobra.Command, args []string) error {
	if err := t.check(); err != nil {
		return wrongCall(err)
	}
	recorded, options, err := t.trace.read(command, args[0], t.service.ServiceTime)
	if err != nil {
		return err
	}
	work := recorded.Workload(options, t.seed)
	bar := report.NewProgress(command.ErrOrStderr())
	advice, err := simulation.Tuning{
		Workload:  work,
		Options:   t.options,
		Counting:  t.counting,
		HeavyCost: t.heavyCost,
		Seed:      t.seed,
		Progress:  bar.Show,
	}.Run(command.Context())
	bar.Clear()
	if err != nil {
		return err
	}
	about := aboutTrace(args[0], work, options)
	if recorded.Random(options) {
		about.Service += ", unknown ones drawn: " + options.Service.String()
	}
	result := report.Tuning{About: about, Options: t.options, HeavyCost: t.heavyCost, Advice: advice}
	if t.asJSON {
		return result.WriteJSON(command.OutOrStdout())
	}
	return result.WriteText(command.OutOrStdout())
}
