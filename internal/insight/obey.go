package insight

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
)

// Obedience says who obeys a change, by what the processes of the fleet report.
type Obedience struct {
	Workers int          `json:"workers"` // workers that report
	Obeying int          `json:"obeying"`
	Others  []Unfollower `json:"others"` // the other workers, by their names

	// Error says why the reports could not be read; empty: they could.
	Error string `json:"error,omitempty"`
}

// Unfollower is a process that does not obey.
type Unfollower struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Language string `json:"language"`
	Host     string `json:"host"`
	Why      string `json:"why"`
}

const (
	// obeyWithin is how long a change waits for the workers' reports.
	obeyWithin = 3 * time.Second

	betweenReadings = 200 * time.Millisecond

	// A process that has not reported for this time hangs, or is gone.
	silentAfter = 8 * time.Second

	mostReasons     = 3 // in a sentence
	mostUnfollowers = 3 // named for one reason
)

// AwaitRules waits up to three seconds until all processes follow rules, and says who
// does. A nil policy: the rules were withdrawn.
func (i *Inspector) AwaitRules(ctx context.Context, version int64, policy *priority.Policy) Obedience {
	waiting, cancel := context.WithTimeout(ctx, obeyWithin)
	defer cancel()
	for {
		reports, err := i.Reports(ctx)
		if err != nil {
			return Obedience{Error: OneLine(i.Hidden(err))}
		}
		o, decided := ObeyRules(reports, version, policy)
		if decided {
			return o
		}
		select {
		case <-waiting.Done():
			if ctx.Err() != nil { // the workers did not have enough time
				return Obedience{Error: "interrupted"}
			}
			return o
		case <-time.After(betweenReadings):
		}
	}
}

// ObeyRules says who follows the rules of a version. No tier has more levels than the
// policy; nil: the rules were withdrawn, by the change of that version. It is decided once no
// other worker is expected to follow within seconds.
func ObeyRules(reports []fleet.Report, version int64, policy *priority.Policy) (o Obedience, decided bool) {
	decided = true
	o = obedience(reports, func(r fleet.Report) (why string) {
		switch {
		case policy != nil && policy.Last() > r.Levels:
			return fmt.Sprintf("its queue has %s, the rules %d", Plural(int64(r.Levels), "level"), policy.Last())
		case r.Rules.Error != "": // perhaps about other rules
		case r.Rules.Version >= version, policy == nil && r.Rules.Version == 0:
			return ""
		}
		decided = decided && r.Age > silentAfter
		switch {
		case r.Age > silentAfter:
			return silence(r)
		case r.Rules.Error != "":
			return r.Rules.Error
		case r.Rules.Version == 0:
			return "it still goes by its own options"
		}
		return fmt.Sprintf("it still follows version %d", r.Rules.Version)
	})
	return o, decided
}

// ObeyOverride says who applies an override.
func ObeyOverride(reports []fleet.Report, override priority.Override) Obedience {
	return obedience(reports, func(r fleet.Report) (why string) {
		switch {
		case !r.Overrides:
			return "it does not read overrides"
		case override.Earliest > r.Levels:
			return fmt.Sprintf("its queue has %s: it gives level %d", Plural(int64(r.Levels), "level"), r.Levels)
		case r.Degraded:
			return fmt.Sprintf("it could not reach Redis at its last report, %s ago", Span(r.Age.Round(time.Second)))
		}
		return ""
	})
}

// obedience asks of each process why it does not obey; empty: it does.
func obedience(reports []fleet.Report, whyNot func(fleet.Report) string) Obedience {
	o := Obedience{Workers: len(reports), Others: []Unfollower{}}
	for _, r := range reports {
		why := "its report cannot be read"
		if r.Err == nil {
			if why = whyNot(r); why == "" && r.Age > silentAfter {
				why = silence(r) // a killed or stopped process does not obey
			}
		}
		if why == "" {
			o.Obeying++
			continue
		}
		o.Others = append(o.Others, Unfollower{r.ID, r.Name, r.Language, r.Host, why})
	}
	slices.SortFunc(o.Others, func(a, b Unfollower) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return o
}

func silence(r fleet.Report) string {
	return fmt.Sprintf("it has not reported for %s", Span(r.Age.Round(time.Second)))
}

// Kept names the rules that workers keep after Redis lost them, such as "version 12, which
// Redis lost"; empty: there are none. The workers' own options do not decide then.
func (i *Inspector) Kept(reports []fleet.Report) string {
	if i.Settings == nil || i.RulesVersion() > 0 {
		return ""
	}
	newest := int64(0)
	for _, r := range reports {
		if r.Err == nil && r.Rules.Error != "" { // else the rules are being withdrawn
			newest = max(newest, r.Rules.Version)
		}
	}
	if newest == 0 {
		return ""
	}
	return fmt.Sprintf("version %d, which Redis lost", newest)
}

// Lost says which workers report that Redis lost what operators set, such as "w1 and w2
// report that Redis lost data: version 12 was known, 0 is there"; empty: no worker does. An
// error comes from [Inspector.Reports].
func (i *Inspector) Lost(ctx context.Context) (string, error) {
	reports, err := i.Reports(ctx)
	if err != nil {
		return "", err
	}
	there := int64(math.MaxInt64)
	if settings, err := i.Admin.Settings(ctx); err == nil { // after the reports, so none is ahead of it
		there = settings.Version
	}
	return lost(reports, there), nil
}

// lost is Lost of reports, while Redis has a version.
func lost(reports []fleet.Report, there int64) string {
	o := obedience(reports, func(r fleet.Report) string {
		switch {
		case strings.HasPrefix(r.Rules.Error, lostData):
			return r.Rules.Error
		case r.Rules.Version > there:
			return fmt.Sprintf("%s: version %d was known, %d is there", lostData, r.Rules.Version, there)
		}
		return ""
	})
	var who []string
	what := ""
	for _, other := range o.Others {
		if strings.HasPrefix(other.Why, lostData) { // the others are silent
			who, what = append(who, other.Worker()), cmp.Or(what, other.Why)
		}
	}
	switch {
	case who == nil:
		return ""
	case !typable(what):
		what = Quoted(what)
	}
	if len(who) == 1 {
		return who[0] + " reports that " + what
	}
	return named(who) + " report that " + what
}

// lostData begins a report's reason in every language if Redis lost what operators set.
const lostData = "Redis lost data"

// Worker names the process for people: "w4 on host b".
func (u Unfollower) Worker() string {
	name := Shown(cmp.Or(u.Name, u.ID))
	if u.Host != "" && !strings.Contains(u.Name, u.Host) {
		name += " on host " + Shown(u.Host)
	}
	if u.Language != "" && u.Language != "go" {
		name += " (" + Shown(u.Language) + ")"
	}
	return name
}

// String is "in force; 5 of 6 workers obey; w4 on host b does not: its queue has 3
// levels, the rules 9".
func (o Obedience) String() string { return "in force; " + o.Who() }

// Who is String without "in force; ".
func (o Obedience) Who() string {
	obeying := fmt.Sprintf("%s of %s workers obey", Group(int64(o.Obeying)), Group(int64(o.Workers)))
	switch {
	case o.Error != "":
		return "who obeys is not known: " + o.Error
	case o.Workers == 0:
		return "no worker reports, so who obeys is not known"
	case o.Workers == 1 && o.Obeying == 1:
		return "the only worker obeys"
	case o.Workers == 2 && o.Obeying == 2:
		return "both workers obey"
	case o.Obeying == o.Workers:
		return fmt.Sprintf("all %s workers obey", Group(int64(o.Workers)))
	case o.Workers == 1:
		obeying = "the only worker does not obey"
	case o.Obeying == 1:
		obeying += "s"
	case o.Obeying == 0:
		obeying = fmt.Sprintf("none of %s workers obeys", Group(int64(o.Workers)))
	}
	return strings.Join(append([]string{obeying}, o.reasons()...), "; ")
}

// reasons says who does not obey, each reason once: if Redis lost its data, all workers
// have the same reason.
func (o Obedience) reasons() []string {
	var reasons []string
	who := map[string][]string{}
	for _, other := range o.Others {
		if who[other.Why] == nil {
			reasons = append(reasons, other.Why)
		}
		who[other.Why] = append(who[other.Why], other.Worker())
	}
	var said []string
	left := len(o.Others)
	for n, why := range reasons {
		if n == mostReasons && len(reasons) > n+1 {
			return append(said, fmt.Sprintf("%s more do not: see priorityctl workers", Group(int64(left))))
		}
		left -= len(who[why])
		workers, do := named(who[why]), "does"
		if len(who[why]) > 1 {
			do = "do"
		}
		if !typable(why) {
			why = Quoted(why)
		}
		said = append(said, fmt.Sprintf("%s %s not: %s", workers, do, why))
	}
	return said
}

// named is "w1, w2, w3 and 5 more".
func named(workers []string) string {
	if len(workers) > mostUnfollowers+1 {
		workers = append(workers[:mostUnfollowers:mostUnfollowers], Group(int64(len(workers)-mostUnfollowers))+" more")
	}
	last := len(workers) - 1
	if last == 0 {
		return workers[0]
	}
	return strings.Join(workers[:last], ", ") + " and " + workers[last]
}
