package bench

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/docpriority/priority/lab/internal/markdown"
)

// report is what was measured for one table's name.
type report struct {
	title string
	notes string // a paragraph
	grids []grid
	bars  []bar
}

// grid is a table: its first row is the head, its first column is text and the
// others are figures.
type grid [][]string

// bar is what a figure must be at most, or at least.
type bar struct {
	what    string
	figure  float64
	atLeast bool
	bound   float64
}

func (r *report) write(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "## %s\n\n", r.title)
	if r.notes != "" {
		out.WriteString(strings.Join(strings.Fields(r.notes), " ") + "\n\n")
	}
	for _, grid := range r.grids {
		out.WriteString(markdown.Table(grid))
		out.WriteString("\n")
	}
	if len(r.bars) > 0 {
		bars := grid{{"target", "", "is", ""}}
		for _, bar := range r.bars {
			bars = append(bars, bar.row())
		}
		out.WriteString(markdown.Table(bars))
		out.WriteString("\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (b bar) row() []string {
	relation := "≤ "
	if b.atLeast {
		relation = "≥ "
	}
	verdict := "missed"
	if b.met() {
		verdict = "met"
	}
	return []string{b.what, relation + ratio(b.bound), ratio(b.figure), verdict}
}

// met compares what is printed.
func (b bar) met() bool {
	figure := math.Round(b.figure*100) / 100
	if b.atLeast {
		return figure >= b.bound
	}
	return figure <= b.bound
}

// ratio writes a ratio, with as many decimals as mean something.
func ratio(r float64) string {
	switch {
	case r >= 99.95:
		return whole(r)
	case r >= 9.995:
		return tenths(r)
	}
	return fmt.Sprintf("%.2f", r)
}

// whole writes a figure without decimals and with commas.
func whole(f float64) string {
	digits := fmt.Sprintf("%.0f", f)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func tenths(f float64) string { return fmt.Sprintf("%.1f", f) }
