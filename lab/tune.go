package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/docpriority/priority/lab/internal/report"
	"github.com/docpriority/priority/lab/internal/simulation"
)

const tuneHelp = `Tune replays a trace (see matrix) and says whether Next or Submit (with Done) serves its
customers better, and with which policy. It chooses policies on the first two thirds of the
trace's time, and judges on the last third, which it holds back: only a difference that
shows there, in both halves of it, counts. It prints the waits, the verdict, and the Go
lines to paste.

Two waits decide: the light customers' 99th percentile (see -light), and the worst tenth (the
90th percentile of all customers' mean waits). One must become
shorter, by a twentieth of wait and service at least, and the other not longer. What others
no longer wait for, the heavy customers wait for, at most three times as long as by Next with
the default policy. What makes no difference is left as it is.

-servers must be as many documents as your workers process at once: with too many nobody
waits, and nothing makes a difference.

Which policies: for Next, reset intervals from 5 minutes to 6 hours, both modes, five tables;
for Submit, the default loads of nine, five and four levels, a sixteenth to 16 times as much,
the other levels being turns. None has more than nine levels.
`

// tune is what the command's flags say.
type tune struct {
	traceFlags
	servers int
}

func newTune(flags *flag.FlagSet) (action, string) {
	t := new(tune)
	flags.IntVar(&t.servers, "servers", 16, "how many documents are served at once")
	t.register(flags)
	return t.run, tuneHelp
}

func (t *tune) run(ctx context.Context, with terminal, args []string) error {
	if len(args) != 1 || t.servers < 1 {
		return wrongCall(fmt.Errorf("it takes one trace and 1 server at least: %q, %d servers", args, t.servers))
	}
	recorded, err := t.read(with, args[0])
	if err != nil {
		return err
	}
	advice, err := simulation.Tuning{Workload: recorded.Workload(t.trace, 1), Servers: t.servers}.Run(ctx)
	if err != nil {
		return err
	}
	return report.Tuning{About: aboutTrace(args[0], recorded, t.trace), Servers: t.servers, Advice: advice}.WriteText(with.stdout)
}

func aboutTrace(name string, recorded *simulation.Trace, options simulation.TraceOptions) report.About {
	load, documents, customers := recorded.Workload(options, 1).Load()
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
		about.Service += ", unknown ones drawn: " + simulation.ServiceTimes
	}
	return about
}
