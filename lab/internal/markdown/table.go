// Package markdown writes tables that are read in a terminal, too.
package markdown

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table writes rows, of which the first is the heading. The first column stands to the
// left, the others to the right.
func Table(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for at, row := range rows {
		for i, cell := range row {
			if i == 0 {
				fmt.Fprintf(&text, "| %-*s |", widths[i], cell)
			} else {
				fmt.Fprintf(&text, " %*s |", widths[i], cell)
			}
		}
		text.WriteByte('\n')
		if at > 0 {
			continue
		}
		text.WriteString("|" + strings.Repeat("-", widths[0]+2) + "|")
		for _, width := range widths[1:] {
			text.WriteString(strings.Repeat("-", width+1) + ":|")
		}
		text.WriteByte('\n')
	}
	return text.String()
}
