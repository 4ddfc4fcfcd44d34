package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// columns are those of a table on a terminal.
type columns []column

type column struct {
	heading string
	width   int // negative: the text is on the left
}

func (all columns) line(cells ...string) string {
	shown := make([]string, len(all))
	for i, c := range all {
		shown[i] = fmt.Sprintf("%*s", c.width, cells[i])
	}
	return strings.Join(shown, "  ")
}

func (all columns) heading() string {
	headings := make([]string, len(all))
	for i, c := range all {
		headings[i] = c.heading
	}
	return all.line(headings...)
}

// character is what is cut as a whole: a character, or an escape that stands for one.
var character = regexp.MustCompile(`(?s)\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)|.`)

// cut returns a text in at most so many columns of a terminal, with an ellipsis if it is longer.
func cut(text string, columns int) string {
	if columnsOf(text) <= columns {
		return text
	}
	var short strings.Builder
	for _, c := range character.FindAllString(text, -1) {
		if columns -= columnsOf(c); columns < 1 { // which the ellipsis needs
			break
		}
		short.WriteString(c)
	}
	return short.String() + "…"
}

// columnsOf returns how many columns of a terminal a text takes, if none of its characters is wide.
func columnsOf(text string) int { return utf8.RuneCountInString(text) }
