package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/docpriority/priority/lab/internal/report"
	"github.com/docpriority/priority/lab/internal/simulation"
)

const tuneHelp = `Tune replays a trace (see simulate) and says whether Next or Submit (with Done) serves its
customers better, and with which policy. It chooses policies on the first two thirds of the
trace's time, and judges on the last third, which it holds back: only a difference that
shows there, in both halves of it, counts. It prints the waits, the verdict, and the Go
lines to paste.

Two waits decide: the light customers' 99th percentile (see -light), and the worst tenth (the
90th percentile of all customers' mean waits). One must become
shorter, by a twentieth of wait and service at least, and the other not longer. What others
no longer wait for, the heavy customers wait for, at most -heavy-cost longer than now. "Now"
is what -counting and the policy's flags say. What makes no
difference is left as it is.

-servers must be as many documents as your workers process at once: with too many nobody
waits, and nothing makes a difference.

Which policies: for Next, reset intervals from 5 minutes to 6 hours, both modes, five tables;
for Submit, your loads and the default ones of nine, five and four levels, a sixteenth to 16
times as much, the other levels being turns. None has more levels than you have now.
`

// tune is what the command's flags say.
type tune struct {
	traceFlags
	policyFlags
	options   simulation.Options
	counting  string
	heavyCost float64
}

func newTune(flags *flag.FlagSet) (action, string) {
	t := new(tune)
	flags.IntVar(&t.options.Servers, "servers", 16, "how many documents are served at once")
	flags.Float64Var(&t.heavyCost, "heavy-cost", 2, "how much longer than now the heavy customers may wait on average: 2 is three times as long")
	flags.StringVar(&t.counting, "counting", simulation.Rule, "what is called now: rule (Next) or submit (Submit and Done)")
	t.traceFlags.register(flags)
	t.policyFlags.register(flags)
	return t.run, tuneHelp
}

// checkAll sets the options by the flags.
func (t *tune) checkAll() error {
	switch {
	case t.counting != simulation.Rule && t.counting != simulation.Submit:
		return fmt.Errorf("-counting is %s or %s, not %q", simulation.Rule, simulation.Submit, t.counting)
	case !(t.heavyCost >= 0):
		return fmt.Errorf("-heavy-cost %v is negative", t.heavyCost)
	}
	var err error
	t.options.Policy, err = t.policy()
	t.options.Schedulers = []string{t.counting}
	return errors.Join(err, t.trace.Validate(), t.options.Validate())
}

func (t *tune) run(ctx context.Context, with terminal, args []string) error {
	if err := t.checkAll(); err != nil {
		return wrongCall(err)
	}
	if len(args) != 1 {
		return wrongCall(errors.New("it takes one trace"))
	}
	recorded, err := t.read(with, args[0])
	if err != nil {
		return err
	}
	advice, err := simulation.Tuning{
		Workload:  recorded.Workload(t.trace, 1),
		Options:   t.options,
		Counting:  t.counting,
		HeavyCost: t.heavyCost,
	}.Run(ctx)
	if err != nil {
		return err
	}
	result := report.Tuning{About: aboutTrace(args[0], recorded, t.trace), Options: t.options, HeavyCost: t.heavyCost, Advice: advice}
	return result.WriteText(with.stdout)
}
