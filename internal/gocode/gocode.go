// Package gocode writes policies as Go, for the tools that print lines to paste.
package gocode

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// Policy returns a valid policy as a Go expression. Loads that go by the number of
// thresholds anyway, and no turns, are left out.
func Policy(p priority.Policy) string {
	text := fmt.Sprintf("priority.Policy{\n\tThresholds:    []int64{%s},\n\tResetInterval: %s,\n\tResetMode:     priority.%s,\n",
		list(p.Thresholds), Duration(p.ResetInterval), p.ResetMode)
	if usual := fair.Loads(len(p.Thresholds) + 1); p.Loads != nil && !slices.Equal(p.Loads, usual) {
		text += fmt.Sprintf("\tLoads:         []float64{%s},\n", list(p.Loads))
	}
	if p.Turns > 0 {
		text += fmt.Sprintf("\tTurns:         %d,\n", p.Turns)
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
