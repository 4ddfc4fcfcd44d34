package simulation

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docpriority/priority"
)

// Tuning finds out whether Next or Submit serves a workload's customers better, and
// with which policy. Policies are chosen on the first two thirds of its time, and
// judged on the last third, which is held back until then.
type Tuning struct {
	Workload *Workload // with the groups Light and Heavy
	Servers  int
}

// heavyCost is how many times as long as by Next with the default policy the heavy customers may
// wait on average.
const heavyCost = 3

// Advice is what came of a tuning.
type Advice struct {
	Division
	Next, Submit Found
	// AtPresent compares Submit with Next, both with the default policy, and
	// Verdict both with the policy that is worth taking.
	AtPresent, Verdict Comparison
	Take               *Choice
	Reason             Reason
}

// Found is what was found for one way of counting.
type Found struct {
	Present *Choice    // with the default policy
	Best    *Choice    // with the best policy of the first part, perhaps the default one
	Gain    Comparison // of Best with Present, on the part held back
	Holds   bool       // the gain shows there, too
}

// Taken returns the choice that is worth its change.
func (f Found) Taken() *Choice {
	if f.Holds {
		return f.Best
	}
	return f.Present
}

// Choice is a way to decide levels, and what came of it.
type Choice struct {
	Counting string // Rule or Submit
	Policy   priority.Policy
	Chosen   Measures // of the first part, as if nothing came after it
	Judged   Measures // of the part held back
	halves   [2]Measures
}

// Reason is why a choice is taken.
type Reason string

// The reasons. Where nothing speaks for Submit, Next is taken: it is simpler to call.
const (
	SubmitBetter  Reason = "submit is better"
	NextBetter    Reason = "next is better"
	NoDifference  Reason = "no difference"
	Mixed         Reason = "submit is better for some and worse for others"
	SubmitTooDear Reason = "heavy customers would wait too long by submit"
	NobodyWaits   Reason = "hardly anybody waits"
	TooLittle     Reason = "too little is held back"
)

// Run returns the advice. It depends on the tuning's fields alone.
func (t Tuning) Run(ctx context.Context) (Advice, error) {
	first, last, division, err := divide(t.Workload)
	if err != nil {
		return Advice{}, err
	}
	next, submit := choices(Rule), choices(Submit)
	err = t.each(ctx, append(next, submit...), first, func(c *Choice, starts []time.Duration) {
		c.Chosen = measure(first, t.Servers, starts)
	})
	if err != nil {
		return Advice{}, err
	}
	service := meanService(first)
	a := Advice{Division: division, Next: search(next, next[0], service), Submit: search(submit, next[0], service)}
	err = t.each(ctx, a.finalists(), last, func(c *Choice, starts []time.Duration) {
		c.Judged = measure(last, t.Servers, starts)
		for i, half := range halves(last) {
			c.halves[i] = measure(half, t.Servers, starts)
		}
	})
	if err != nil {
		return Advice{}, err
	}
	a.judge(meanService(last))
	return a, nil
}

// choices returns the choices of one way of counting, the default policy first.
func choices(counting string) (all []*Choice) {
	for _, policy := range candidates(counting) {
		all = append(all, &Choice{Counting: counting, Policy: policy})
	}
	return all
}

// each serves a workload under every choice.
func (t Tuning) each(ctx context.Context, choices []*Choice, w *Workload, served func(*Choice, []time.Duration)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, choice := range choices {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			scheduler, err := NewScheduler(choice.Counting, w, Options{Policy: choice.Policy}, 0)
			if err != nil {
				return err
			}
			starts, err := Run(w, t.Servers, scheduler)
			if err != nil {
				return err
			}
			served(choice, starts)
			return nil
		})
	}
	return group.Wait()
}

// search finds the choice with the shortest waits in the first part, of those that
// make neither wait longer, nor the heavy customers pay too much.
func search(choices []*Choice, present *Choice, service float64) Found {
	found := Found{Present: choices[0], Best: choices[0]}
	for _, choice := range choices[1:] {
		if product(choice.Chosen) < product(found.Best.Chosen) && affordable(choice.Chosen, present.Chosen) &&
			noLonger(choice.Chosen, found.Present.Chosen, service) {
			found.Best = choice
		}
	}
	return found
}

// affordable reports whether the heavy customers do not pay too much.
func affordable(m, present Measures) bool { return m[heavyMean] <= heavyCost*present[heavyMean] }

// noLonger reports whether neither wait is longer by so much that it is felt.
func noLonger(m, than Measures, service float64) bool {
	for _, measure := range []string{lightP99, worstTenth} {
		if m[measure] > than[measure]+felt(than[measure], service) {
			return false
		}
	}
	return true
}

// product is the shorter, the better: a tenth less for the light customers is worth
// as much as a tenth less for the worst tenth of all.
func product(m Measures) float64 { return m[lightP99] * m[worstTenth] }

// finalists are judged.
func (a Advice) finalists() []*Choice {
	var finalists []*Choice
	for _, found := range []Found{a.Next, a.Submit} {
		finalists = append(finalists, found.Present)
		if found.Best != found.Present {
			finalists = append(finalists, found.Best)
		}
	}
	return finalists
}

// judge compares on the part held back. A found policy is worth a change only if
// it is better in both halves of it, and so is Submit; what is equal, goes to the
// default policy, and to Next.
func (a *Advice) judge(service float64) {
	affordable := func(c *Choice) bool { return affordable(c.Judged, a.Next.Present.Judged) }
	for _, found := range []*Found{&a.Next, &a.Submit} {
		found.Gain = compare(found.Best, found.Present, service)
		found.Holds = a.enough() && found.Gain.Better() && affordable(found.Best)
	}
	next, submit := a.Next.Taken(), a.Submit.Taken()
	a.AtPresent = compare(a.Submit.Present, a.Next.Present, service)
	a.Verdict = compare(submit, next, service)
	a.Take, a.Reason = next, NoDifference
	switch {
	case !a.enough():
		a.Reason = TooLittle
	case a.Verdict.idle(service):
		a.Reason = NobodyWaits
	case a.Verdict.Better() && !affordable(submit):
		a.Reason = SubmitTooDear
	case a.Verdict.Better():
		a.Take, a.Reason = submit, SubmitBetter
	case a.Verdict.Worse():
		a.Reason = NextBetter
	case a.Verdict.shorter() && a.Verdict.longer():
		a.Reason = Mixed
	}
}
