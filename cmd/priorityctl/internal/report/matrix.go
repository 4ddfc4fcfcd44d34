package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/page/insight"
)

// Matrix is what is shown of a comparison of schedulers.
type Matrix struct {
	simulation.Matrix
	Options simulation.Options // without Servers and LostDone, which differ
	Service string             // of the scenarios
	Seeds   int
}

// WriteTable writes a table for a terminal of 80 columns, two lines a figure: the
// mean, and half its confidence interval.
func (m Matrix) WriteTable(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintln(&text, insight.Wrap(m.conditions()+".", width))
	text.WriteByte('\n')
	var table grid
	table.row("", append(m.headings(), "oracle", "ratio"))
	for _, row := range m.Rows {
		var means, within []string
		for _, cell := range append(slices.Clone(row.Cells), row.Oracle) {
			means = append(means, brief(cell.Mean))
			within = append(within, plusMinus(cell.Within))
		}
		table.row(row.Regime.Name, append(means, m.ratio(row)))
		table.row("  "+briefly(row.Figure), append(within, heading(row.Ideal.Scheduler)))
	}
	table.write(&text)
	text.WriteByte('\n')
	fmt.Fprintln(&text, insight.Wrap(m.sentenceOfScores(), width))
	text.WriteByte('\n')
	fmt.Fprintln(&text, insight.Wrap(legend, width))
	_, err := io.WriteString(to, text.String())
	return err
}

const legend = `Figures are in seconds but for Jain's index and the smallest share, of which more
is better. Below a mean stands half its 95 % confidence interval, and below a ratio
the scheduler that is ideal: the best of round (robin), drr (deficit round robin),
stride, fair (share) and least (in flight). The ratio is that of submit to ideal, of
1 at least for the score. The oracle gives levels at arrival and knows what will come.`

// conditions says in half a sentence under which the matrix was made.
func (m Matrix) conditions() string {
	conditions := fmt.Sprintf("%s; %s consumers; %d levels", m.Service, m.Options.Discipline, m.Options.Policy.Last())
	if m.Options.Lease > 0 {
		conditions += fmt.Sprintf("; lease %v", m.Options.Lease)
	}
	if m.Seeds == 1 {
		return conditions + "; 1 seed"
	}
	return conditions + fmt.Sprintf("; mean of %d seeds", m.Seeds)
}

func (m Matrix) headings() []string {
	headings := make([]string, len(m.Schedulers))
	for i, name := range m.Schedulers {
		headings[i] = heading(name)
	}
	return headings
}

// heading is a scheduler's name for a narrow column.
func heading(scheduler string) string {
	name, discipline, own := strings.Cut(scheduler, ":")
	if short, ok := map[string]string{
		simulation.FirstCome:   "first",
		simulation.RoundRobin:  "round",
		simulation.Deficit:     "drr",
		simulation.FairShare:   "fair",
		simulation.LeastFlight: "least",
	}[name]; ok {
		return short
	}
	if own {
		return name[:1] + ":" + discipline[:min(len(discipline), 8)]
	}
	return name
}

// briefly says which figure it is.
func briefly(f simulation.Figure) string {
	return strings.NewReplacer(" wait", "", "lightest half", "lightest", "worst tenth", "worst 10th").Replace(plain(f.Measure))
}

// ratio is that of submit to ideal.
func (m Matrix) ratio(row simulation.Row) string {
	i := slices.Index(m.Schedulers, simulation.Submit)
	if i < 0 {
		return ""
	}
	return brief(row.Cells[i].Ratio)
}

func (m Matrix) sentenceOfScores() string {
	scores := make([]string, len(m.Scores))
	for i, score := range m.Scores {
		scores[i] = score.Scheduler + " " + brief(score.Value)
	}
	return "Score, 1 is ideal: " + strings.Join(scores, ", ") + "."
}

// grid is a table whose first column stands to the left and the others to the
// right, with one space between them.
type grid struct {
	rows   [][]string
	widths []int
}

func (g *grid) row(label string, cells []string) {
	cells = append([]string{label}, cells...)
	for i, cell := range cells {
		if i == len(g.widths) {
			g.widths = append(g.widths, 0)
		}
		g.widths[i] = max(g.widths[i], utf8.RuneCountInString(cell))
	}
	g.rows = append(g.rows, cells)
}

func (g *grid) write(to io.Writer) {
	for _, cells := range g.rows {
		fmt.Fprintf(to, "%-*s", g.widths[0], cells[0])
		for i, cell := range cells[1:] {
			fmt.Fprintf(to, " %*s", g.widths[i+1], cell)
		}
		fmt.Fprintln(to)
	}
}

// brief writes a number of at most five columns.
func brief(value float64) string {
	switch size := math.Abs(value); {
	case math.IsNaN(value):
		return "-"
	case math.IsInf(value, 0):
		return "inf"
	case size >= 99_999.5:
		return fmt.Sprintf("%.0fk", value/1000)
	case size >= 0.00995 || value == 0:
		return number(value)
	}
	return strings.Replace(fmt.Sprintf("%.4f", value), "0.", ".", 1)
}

// plusMinus writes half an interval in at most five columns.
func plusMinus(within float64) string {
	switch {
	case math.IsNaN(within), math.IsInf(within, 0):
		return "-"
	case within == 0:
		return ""
	case within < 0.00995:
		return "±" + strings.Replace(fmt.Sprintf("%.3f", within), "0.", ".", 1)
	case within >= 9999.5:
		return "±" + fmt.Sprintf("%.0fk", within/1000)
	}
	return "±" + number(within)
}

// WriteMarkdown writes one table.
func (m Matrix) WriteMarkdown(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "| regime | figure | %s | oracle | ideal | submit ÷ ideal |\n", strings.Join(m.Schedulers, " | "))
	fmt.Fprintf(&text, "|---|---|%s---|---|---|\n", strings.Repeat("---|", len(m.Schedulers)))
	for _, row := range m.Rows {
		fmt.Fprintf(&text, "| %s | %s |", row.Regime.Name, plain(row.Figure.Measure))
		for _, cell := range row.Cells {
			fmt.Fprintf(&text, " %s |", wide(cell))
		}
		fmt.Fprintf(&text, " %s | %s (%s) | %s |\n", wide(row.Oracle), wide(row.Ideal), row.Ideal.Scheduler, m.ratio(row))
	}
	fmt.Fprintf(&text, "\n%s\n", m.sentenceOfScores())
	_, err := io.WriteString(to, text.String())
	return err
}

// wide writes a mean and its interval.
func wide(cell simulation.Cell) string {
	if math.IsNaN(cell.Mean) {
		return "-"
	}
	if cell.Within == 0 {
		return number(cell.Mean)
	}
	return number(cell.Mean) + " ± " + number(cell.Within)
}

// orderTables are the tables of order and patience.
var orderTables = []struct {
	title    string
	measures []string // the first that there is
	times    float64
}{
	{"overtaken, %", []string{simulation.OvertakenShare}, 100},
	{"longest, others", []string{simulation.Others + "_wait_max_s", simulation.Light + "_wait_max_s"}, 1},
	{"longest, all", []string{simulation.LongestWait}, 1},
}

// WriteOrder writes who overtakes and who waits longest, for a terminal of 80
// columns.
func (m Matrix) WriteOrder(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintln(&text, insight.Wrap(m.conditions()+".", width))
	for _, about := range orderTables {
		text.WriteByte('\n')
		var table grid
		table.row(about.title, m.headings())
		for _, row := range m.regimes() {
			cells := make([]string, len(row.Cells))
			for i, cell := range row.Cells {
				cells[i] = brief(about.times * first(cell, about.measures).Mean)
			}
			table.row(row.Regime.Name, cells)
		}
		table.write(&text)
	}
	text.WriteByte('\n')
	fmt.Fprintln(&text, insight.Wrap(orderLegend, width))
	_, err := io.WriteString(to, text.String())
	return err
}

const orderLegend = `Overtaken: the share of the documents that waited at all of which a later document of
the same customer began earlier. Longest: the longest wait in seconds, the mean over
the seeds; the others of a trace are its light customers.`

// WriteOrderMarkdown writes the same as one table.
func (m Matrix) WriteOrderMarkdown(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "| regime | | %s |\n", strings.Join(m.Schedulers, " | "))
	fmt.Fprintf(&text, "|---|---|%s\n", strings.Repeat("---|", len(m.Schedulers)))
	for _, row := range m.regimes() {
		for _, about := range orderTables {
			fmt.Fprintf(&text, "| %s | %s |", row.Regime.Name, about.title)
			for _, cell := range row.Cells {
				fmt.Fprintf(&text, " %s |", number(about.times*first(cell, about.measures).Mean))
			}
			text.WriteByte('\n')
		}
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// regimes returns the first row of each regime.
func (m Matrix) regimes() []simulation.Row {
	return slices.CompactFunc(slices.Clone(m.Rows), func(a, b simulation.Row) bool { return a.Regime.Name == b.Regime.Name })
}

// first returns the first of the measures that there is.
func first(cell simulation.Cell, measures []string) simulation.Estimate {
	for _, measure := range measures {
		if estimate, ok := cell.Measures[measure]; ok {
			return estimate
		}
	}
	return simulation.Estimate{Mean: math.NaN(), Within: math.NaN()}
}

type matrixJSON struct {
	Service    string             `json:"service"`
	Discipline string             `json:"discipline"`
	LeaseS     float64            `json:"lease_s,omitempty"`
	Policy     control.Rules      `json:"policy"`
	Figures    []figureJSON       `json:"figures"`
	Regimes    []regimeJSON       `json:"regimes"`
	Scores     map[string]float64 `json:"scores"`
}

type figureJSON struct {
	Regime       string     `json:"regime"`
	Figure       string     `json:"figure"`
	MoreIsBetter bool       `json:"more_is_better"`
	Schedulers   []cellJSON `json:"schedulers"`
	Ideal        cellJSON   `json:"ideal"`
	Oracle       cellJSON   `json:"oracle"`
}

// cellJSON is null where there is no figure, or no ratio.
type cellJSON struct {
	Scheduler string   `json:"scheduler"`
	Mean      *float64 `json:"mean"`
	Within    *float64 `json:"ci95"`
	Ratio     *float64 `json:"ratio"`
}

type regimeJSON struct {
	Regime     string          `json:"regime"`
	Summary    string          `json:"summary"`
	Servers    int             `json:"servers"`
	LostDone   float64         `json:"lost_done"`
	Seeds      int             `json:"seeds"`
	FirstSeed  uint64          `json:"first_seed"`
	Schedulers []schedulerJSON `json:"schedulers"` // with all measures
}

// WriteJSON writes one object.
func (m Matrix) WriteJSON(to io.Writer) error {
	object := matrixJSON{
		Service:    m.Service,
		Discipline: m.Options.Discipline,
		LeaseS:     m.Options.Lease.Seconds(),
		Policy:     insight.RulesOf(m.Options.Policy),
		Scores:     make(map[string]float64),
	}
	for _, row := range m.Rows {
		figure := figureJSON{
			Regime:       row.Regime.Name,
			Figure:       row.Figure.Measure,
			MoreIsBetter: row.Figure.MoreIsBetter,
			Ideal:        newCellJSON(row.Ideal),
			Oracle:       newCellJSON(row.Oracle),
		}
		for _, cell := range row.Cells {
			figure.Schedulers = append(figure.Schedulers, newCellJSON(cell))
		}
		object.Figures = append(object.Figures, figure)
	}
	for _, row := range m.regimes() {
		regime := regimeJSON{
			Regime:    row.Regime.Name,
			Summary:   row.Regime.Summary,
			Servers:   row.Regime.Servers,
			LostDone:  row.Regime.LostDone,
			Seeds:     row.Regime.Seeds,
			FirstSeed: row.Regime.FirstSeed,
		}
		for _, cell := range row.Cells {
			regime.Schedulers = append(regime.Schedulers, newSchedulerJSON(cell.Outcome))
		}
		object.Regimes = append(object.Regimes, regime)
	}
	for _, score := range m.Scores {
		if finite(score.Value) != nil {
			object.Scores[score.Scheduler] = score.Value
		}
	}
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(object)
}

func newCellJSON(c simulation.Cell) cellJSON {
	return cellJSON{c.Scheduler, finite(c.Mean), finite(c.Within), finite(c.Ratio)}
}

// finite returns a number for JSON, which has no others.
func finite(value float64) *float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	return &value
}

func newSchedulerJSON(outcome simulation.Outcome) schedulerJSON {
	measures := make(map[string]estimateJSON, len(outcome.Measures))
	for name, estimate := range outcome.Measures {
		measures[name] = estimateJSON(estimate)
	}
	return schedulerJSON{outcome.Scheduler, measures}
}
