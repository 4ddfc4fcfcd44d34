// Package report shows what a simulation measured: as a table, as JSON, or as a
// page with plots.
package report

import "github.com/docpriority/priority/cmd/priorityctl/internal/simulation"

// Simulation is what is shown.
type Simulation struct {
	About    About
	Options  simulation.Options
	Seeds    int
	Outcomes []simulation.Outcome
	Results  []simulation.Result
}

// About says what was simulated.
type About struct {
	Name, Summary, Service string
	Recorded               bool // a trace, not a scenario
}
