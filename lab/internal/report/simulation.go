// Package report shows what the simulator measured, as tables and as JSON.
package report

import (
	"encoding/json"
	"io"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/lab/internal/simulation"
)

// Simulation is a scenario or a trace, and what each scheduler made of it.
type Simulation struct {
	About    About
	Options  simulation.Options
	Seeds    int
	Outcomes []simulation.Outcome
	Results  []simulation.Result
}

// About says what was simulated.
type About struct{ Name, Summary, Service string }

// WriteJSON writes one object.
func (s Simulation) WriteJSON(to io.Writer) error {
	return writeJSON(to, struct {
		Name       string               `json:"name"`
		Summary    string               `json:"summary"`
		Service    string               `json:"service"`
		Servers    int                  `json:"servers"`
		Discipline string               `json:"discipline"`
		LostDone   float64              `json:"lost_done"`
		LeaseS     float64              `json:"lease_s,omitempty"`
		Policy     control.Rules        `json:"policy"`
		Seeds      int                  `json:"seeds"`
		Schedulers []simulation.Outcome `json:"schedulers"`
		Targets    []simulation.Result  `json:"targets"`
	}{
		s.About.Name, s.About.Summary, s.About.Service, s.Options.Servers, s.Options.Discipline, s.Options.LostDone,
		s.Options.Lease.Seconds(), control.Rules{Policy: s.Options.Policy}, s.Seeds, s.Outcomes, s.Results,
	})
}

func writeJSON(to io.Writer, object any) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(object)
}
