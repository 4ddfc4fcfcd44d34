// Package gocode writes policies as Go, for the tools that print lines to paste.
package gocode

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// Policy returns a policy with every field filled in as a Go expression. Loads and turns
// that follow from the thresholds are left out.
func Policy(p priority.Policy) string {
	text := fmt.Sprintf("priority.Policy{\n\tThresholds:    []int64{%s},\n\tResetInterval: %s,\n\tResetMode:     priority.%s,\n",
		list(p.Thresholds), Duration(p.ResetInterval), p.ResetMode)
	if usual := (priority.Policy{Thresholds: p.Thresholds}).WithDefaults(); !slices.Equal(p.Loads, usual.Loads) || p.Turns != usual.Turns {
		text += fmt.Sprintf("\tLoads:         []float64{%s},\n\tTurns:         %d,\n", list(p.Loads), p.Turns)
	}
	return text + "}"
}

func list[T any](numbers []T) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = fmt.Sprint(n)
	}
	return strings.Join(texts, ", ")
}

// Duration returns a duration as a Go expression in its largest whole unit.
func Duration(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"}} {
		if d%unit.length == 0 {
			return fmt.Sprintf("%d * %s", d/unit.length, unit.name)
		}
	}
	return fmt.Sprintf("%d * time.Millisecond", d.Milliseconds())
}
