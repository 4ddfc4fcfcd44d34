package simulation

import (
	"context"
	"runtime"
	"time"

	"github.com/docpriority/priority"
	"golang.org/x/sync/errgroup"
)

// Tuning finds out whether Next or Submit serves a workload's customers better, and
// with which policy. Policies are chosen on the first two thirds of its time, and
// judged on the last third, which is held back until then.
type Tuning struct {
	Workload *Workload // with the groups Light and Heavy
	Options  Options   // Policy is the present one
	Counting string    // Rule or Submit: what is called at present
	// HeavyCost is how much longer than at present the heavy customers may wait on
	// average: 1 is twice as long.
	HeavyCost float64
}

// Advice is what came of a tuning.
type Advice struct {
	Division
	Next, Submit Found
	// AtPresent compares Submit with Next, both with the present policy, and
	// Verdict both with the policy that is worth taking.
	AtPresent, Verdict Comparison
	Take               *Choice
	Reason             Reason
}

// Found is what was found for one way of counting.
type Found struct {
	Present *Choice    // with the present policy
	Best    *Choice    // with the best policy of the first part, perhaps the present one
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
// Where too little is held back, all stays as it is.
const (
	SubmitBetter  Reason = "submit is better"
	NextBetter    Reason = "next is better"
	NoDifference  Reason = "no difference"
	Mixed         Reason = "submit is better for some and worse for others"
	NextTooDear   Reason = "heavy customers would wait too long by next"
	SubmitTooDear Reason = "heavy customers would wait too long by submit"
	NobodyWaits   Reason = "hardly anybody waits"
	TooLittle     Reason = "too little is held back"
)

// Run returns the advice. It depends on the tuning's fields alone.
func (t Tuning) Run(ctx context.Context) (Advice, error) {
	if err := t.Options.Validate(); err != nil {
		return Advice{}, err
	}
	first, last, division, err := divide(t.Workload)
	if err != nil {
		return Advice{}, err
	}
	next, submit := t.choices(Rule), t.choices(Submit)
	err = t.each(ctx, append(next, submit...), first, func(c *Choice, starts []time.Duration) {
		c.Chosen = measure(first, t.Options.Servers, starts)
	})
	if err != nil {
		return Advice{}, err
	}
	present := next[0]
	if t.Counting == Submit {
		present = submit[0]
	}
	a := Advice{Division: division, Next: t.search(next, present, meanService(first)), Submit: t.search(submit, present, meanService(first))}
	err = t.each(ctx, a.finalists(), last, func(c *Choice, starts []time.Duration) {
		c.Judged = measure(last, t.Options.Servers, starts)
		for i, half := range halves(last) {
			c.halves[i] = measure(half, t.Options.Servers, starts)
		}
	})
	if err != nil {
		return Advice{}, err
	}
	t.judge(&a, present, meanService(last))
	return a, nil
}

// choices returns the choices of one way of counting, the present policy first.
func (t Tuning) choices(counting string) []*Choice {
	choices := []*Choice{{Counting: counting, Policy: t.Options.Policy}}
	for _, policy := range candidates(counting, t.Options.Policy) {
		choices = append(choices, &Choice{Counting: counting, Policy: policy})
	}
	return choices
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
			options := t.Options
			options.Policy = choice.Policy
			scheduler, err := NewScheduler(choice.Counting, w, options, 0)
			if err != nil {
				return err
			}
			starts, err := Run(w, options.Servers, scheduler)
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
func (t Tuning) search(choices []*Choice, present *Choice, service float64) Found {
	found := Found{Present: choices[0], Best: choices[0]}
	for _, choice := range choices[1:] {
		if product(choice.Chosen) < product(found.Best.Chosen) && t.affordable(choice.Chosen, present.Chosen) &&
			noLonger(choice.Chosen, found.Present.Chosen, service) {
			found.Best = choice
		}
	}
	return found
}

// affordable reports whether the heavy customers do not pay too much.
func (t Tuning) affordable(m, present Measures) bool {
	return m[heavyMean] <= present[heavyMean]*(1+t.HeavyCost)
}

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
// present policy, and to Next.
func (t Tuning) judge(a *Advice, present *Choice, service float64) {
	affordable := func(c *Choice) bool { return t.affordable(c.Judged, present.Judged) }
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
		a.Take, a.Reason = present, TooLittle
	case a.Verdict.idle(service):
		a.Reason = NobodyWaits
	case affordable(submit) && !affordable(next):
		a.Take, a.Reason = submit, NextTooDear
	case a.Verdict.Better() && !affordable(submit) && affordable(next):
		a.Reason = SubmitTooDear
	case a.Verdict.Better():
		a.Take, a.Reason = submit, SubmitBetter
	case a.Verdict.Worse():
		a.Reason = NextBetter
	case a.Verdict.shorter() && a.Verdict.longer():
		a.Reason = Mixed
	}
}
