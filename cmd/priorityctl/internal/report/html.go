package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

//go:embed page.gohtml
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

type page struct {
	Title, Summary, Conditions string
	Targets                    []targetLine
	Groups                     []string
	Summaries                  []summaryRow
	Several                    bool // seeds
	Waits                      []figure
	Distributions              []figure
	Levels                     []figure
	LevelKey                   []levelColored
}

type targetLine struct {
	Reached bool
	Text    string
}

// summaryRow is a scheduler in the table.
type summaryRow struct {
	Scheduler string
	Waits     []string // p50 and p99 of each group
	Jain      string
	Least     string
	Makespan  string
}

// figure is a plot and what it shows.
type figure struct {
	Title string
	Plot  template.HTML
}

// WriteHTML writes one page that needs nothing else.
func (s Simulation) WriteHTML(to io.Writer) error {
	p := page{
		Title:      s.About.Name,
		Summary:    s.About.Summary,
		Conditions: s.Conditions(),
		Groups:     s.plottedGroups(),
		Several:    s.Seeds > 1,
	}
	for _, r := range s.Results {
		p.Targets = append(p.Targets, targetLine{r.Reached, sentence(r)})
	}
	shortest, longest := s.waitRange(p.Groups)
	for _, outcome := range s.Outcomes {
		p.Summaries = append(p.Summaries, s.summary(outcome, p.Groups))
		p.Waits = append(p.Waits, figure{outcome.Scheduler, waitPlot(outcome.Series, p.Groups, shortest, longest)})
		if outcome.Series.Levels != nil {
			p.Levels = append(p.Levels, figure{outcome.Scheduler, levelPlot(outcome.Series)})
			p.LevelKey = levelKey(len(outcome.Series.Levels))
		}
	}
	for i, group := range p.Groups {
		p.Distributions = append(p.Distributions, figure{theGroup(group), distributionPlot(s.Outcomes, group, i, shortest, longest)})
	}
	return pageTemplate.Execute(to, p)
}

// plottedGroups returns those that have a series: others, or light and heavy,
// come first.
func (s Simulation) plottedGroups() []string {
	var groups []string
	for _, group := range s.groups() {
		if len(s.Outcomes[0].Series.Quantiles[group]) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

func (s Simulation) summary(outcome simulation.Outcome, groups []string) summaryRow {
	row := summaryRow{Scheduler: outcome.Scheduler}
	for _, group := range groups {
		row.Waits = append(row.Waits,
			s.cell(outcome, column{"", group + "_wait_p50_s", false}),
			s.cell(outcome, column{"", group + "_wait_p99_s", s.Seeds > 1}))
	}
	row.Jain = s.cell(outcome, column{"", "jain", false})
	row.Least = s.cell(outcome, column{"", "smallest_share", false})
	row.Makespan = s.cell(outcome, column{"", "makespan_s", false})
	return row
}

// waitRange returns the powers of ten that all plotted waits are between. What is
// shorter than 10 ms is plotted as 10 ms.
func (s Simulation) waitRange(groups []string) (shortest, longest float64) {
	shortest, longest = 0.01, 0.1
	for _, outcome := range s.Outcomes {
		for _, group := range groups {
			for _, wait := range outcome.Series.Quantiles[group] {
				longest = max(longest, wait)
			}
		}
	}
	return shortest, math.Pow(10, math.Ceil(math.Log10(longest)))
}

// levelColored is a level and its colour in the plots.
type levelColored struct {
	Level int
	Color template.CSS
}

// levelKey explains the colours of levels.
func levelKey(levels int) []levelColored {
	key := make([]levelColored, levels)
	for i := range key {
		key[i] = levelColored{i + 1, template.CSS(levelColor(i, levels))}
	}
	return key
}

// timeUnit returns a unit for a length of time, and its name.
func timeUnit(length time.Duration) (unit time.Duration, name string) {
	switch {
	case length < 3*time.Minute:
		return time.Second, "s"
	case length < 3*time.Hour:
		return time.Minute, "min"
	case length < 72*time.Hour:
		return time.Hour, "h"
	}
	return 24 * time.Hour, "days"
}
