package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/trace"
)

// report is what a replay found.
type report struct {
	Documents int        `json:"documents"`
	Customers int        `json:"customers"`
	Levels    levels     `json:"levels"`
	Busiest   []customer `json:"busiest"`
	Lua       *agreement `json:"lua,omitempty"`
	Redis     *agreement `json:"redis,omitempty"`

	rule string // when a count starts afresh, for people
}

// levels counts the documents of each level.
type levels map[priority.Level]int

type customer struct {
	Name      string `json:"customer"`
	Documents int    `json:"documents"`
	Levels    levels `json:"levels"`
}

// agreement says whether a server decided as the memory did.
type agreement struct {
	Agrees bool        `json:"agrees"`
	First  *difference `json:"first_difference,omitempty"`
}

type difference struct {
	Line     int     `json:"line"`
	Customer string  `json:"customer"`
	Memory   outcome `json:"memory"`
	Server   outcome `json:"server"`
}

type outcome struct {
	Level priority.Level `json:"level"`
	Count int64          `json:"count"`
}

func (o outcome) String() string { return fmt.Sprintf("level %d, count %d", o.Level, o.Count) }

// agrees is true also where nothing was compared.
func (a *agreement) agrees() bool { return a == nil || a.Agrees }

func compare(documents []trace.Document, memory, server []priority.Decision) *agreement {
	for i, d := range documents {
		expected := outcome{memory[i].Level, memory[i].Count}
		got := outcome{server[i].Level, server[i].Count}
		if got != expected {
			return &agreement{First: &difference{d.Line, d.Customer, expected, got}}
		}
	}
	return &agreement{Agrees: true}
}

func newReport(documents []trace.Document, decisions []priority.Decision, policy priority.Policy) *report {
	noneYet := func() levels {
		none := make(levels)
		for level := priority.First; level <= policy.Last(); level++ {
			none[level] = 0
		}
		return none
	}
	r := &report{Documents: len(documents), Levels: noneYet(), Busiest: []customer{}}
	r.rule = fmt.Sprintf("%v after the last update", policy.ResetInterval)
	if policy.ResetMode == priority.SinceLastReset {
		r.rule = fmt.Sprintf("%v after the last reset", policy.ResetInterval)
	}
	byName := make(map[string]levels)
	for i, d := range documents {
		if byName[d.Customer] == nil {
			byName[d.Customer] = noneYet()
		}
		byName[d.Customer][decisions[i].Level]++
		r.Levels[decisions[i].Level]++
	}
	for name, levels := range byName {
		total := 0
		for _, n := range levels {
			total += n
		}
		r.Busiest = append(r.Busiest, customer{name, total, levels})
	}
	slices.SortFunc(r.Busiest, func(a, b customer) int {
		return cmp.Or(cmp.Compare(b.Documents, a.Documents), cmp.Compare(a.Name, b.Name))
	})
	r.Customers = len(r.Busiest)
	r.Busiest = r.Busiest[:min(10, len(r.Busiest))]
	return r
}

func (r *report) writeJSON(out io.Writer) error {
	return json.NewEncoder(out).Encode(r)
}

func (r *report) writeText(out io.Writer) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%d documents of %d customers; a count starts afresh\n%s.\n\n", r.Documents, r.Customers, r.rule)
	fmt.Fprintln(&text, "level  documents  per cent")
	for level := priority.First; int(level) <= len(r.Levels); level++ {
		n := r.Levels[level]
		fmt.Fprintf(&text, "%5d  %9d  %8.1f\n", level, n, percent(n, r.Documents))
	}

	fmt.Fprintf(&text, "\nThe busiest customers, and the per cent of their documents at each level:\n\n")
	fmt.Fprintf(&text, "%-20s  %9s", "customer", "documents")
	for level := priority.First; int(level) <= len(r.Levels); level++ {
		fmt.Fprintf(&text, "  %3d", level)
	}
	fmt.Fprintln(&text)
	for _, c := range r.Busiest {
		fmt.Fprintf(&text, "%-20s  %9d", printable(c.Name), c.Documents)
		for level := priority.First; int(level) <= len(r.Levels); level++ {
			fmt.Fprintf(&text, "  %3.0f", percent(c.Levels[level], c.Documents))
		}
		fmt.Fprintln(&text)
	}

	writeAgreement(&text, "The script in miniredis", r.Lua, r.Documents)
	writeAgreement(&text, "The script on the Redis server", r.Redis, r.Documents)
	_, err := out.Write(text.Bytes())
	return err
}

func writeAgreement(out io.Writer, what string, a *agreement, documents int) {
	switch {
	case a == nil:
	case a.Agrees:
		fmt.Fprintf(out, "\n%s agrees with memory.Store on all %d documents.\n", what, documents)
	default:
		fmt.Fprintf(out, "\n%s differs first at line %d, customer %s:\n  memory.Store  %v\n  the script    %v\n",
			what, a.First.Line, printable(a.First.Customer), a.First.Memory, a.First.Server)
	}
}

func percent(n, of int) float64 {
	return 100 * float64(n) / float64(max(of, 1))
}

// printable keeps a customer, who is any bytes, within a column.
func printable(name string) string {
	const width = 20
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		name = quoted
	}
	if runes := []rune(name); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return name
}
