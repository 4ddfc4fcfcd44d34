package report

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/page/insight"
)

type simulationJSON struct {
	Name       string          `json:"name"`
	Summary    string          `json:"summary"`
	Service    string          `json:"service"`
	Servers    int             `json:"servers"`
	Discipline string          `json:"discipline"`
	LostDone   float64         `json:"lost_done"`
	LeaseS     float64         `json:"lease_s,omitempty"`
	Policy     control.Rules   `json:"policy"`
	Seeds      int             `json:"seeds"`
	Schedulers []schedulerJSON `json:"schedulers"`
	Targets    []targetJSON    `json:"targets"`
}

type schedulerJSON struct {
	Scheduler string                  `json:"scheduler"`
	Measures  map[string]estimateJSON `json:"measures"`
}

// estimateJSON is a mean over the seeds, and half of its 95 % confidence interval.
type estimateJSON struct {
	Mean   float64 `json:"mean"`
	Within float64 `json:"ci95"`
}

type targetJSON struct {
	Scheduler string       `json:"scheduler"`
	Measure   string       `json:"measure"`
	AtMost    *float64     `json:"at_most,omitempty"`
	AtLeast   *float64     `json:"at_least,omitempty"`
	Got       estimateJSON `json:"got"`
	Reached   bool         `json:"reached"`
}

// WriteJSON writes one object.
func (s Simulation) WriteJSON(to io.Writer) error {
	object := simulationJSON{
		Name:       s.About.Name,
		Summary:    s.About.Summary,
		Service:    s.About.Service,
		Servers:    s.Options.Servers,
		Discipline: s.Options.Discipline,
		LostDone:   s.Options.LostDone,
		LeaseS:     s.Options.Lease.Seconds(),
		Policy:     insight.RulesOf(s.Options.Policy),
		Seeds:      s.Seeds,
		Targets:    []targetJSON{},
	}
	for _, outcome := range s.Outcomes {
		measures := make(map[string]estimateJSON, len(outcome.Measures))
		for name, estimate := range outcome.Measures {
			measures[name] = estimateJSON(estimate)
		}
		object.Schedulers = append(object.Schedulers, schedulerJSON{outcome.Scheduler, measures})
	}
	for _, result := range s.Results {
		object.Targets = append(object.Targets, newTargetJSON(result))
	}
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(object)
}

func newTargetJSON(r simulation.Result) targetJSON {
	target := targetJSON{
		Scheduler: r.Scheduler,
		Measure:   r.Measure,
		Got:       estimateJSON(r.Estimate),
		Reached:   r.Reached,
	}
	if r.AtLeast {
		target.AtLeast = &r.Value
	} else {
		target.AtMost = &r.Value
	}
	return target
}

// plain makes words of a measure's name, as in "others wait p99".
func plain(measure string) string {
	return strings.ReplaceAll(strings.TrimSuffix(measure, "_s"), "_", " ")
}
