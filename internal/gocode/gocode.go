// Package gocode writes policies as Go, for the tools that print lines to paste.
package gocode

import (
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// Policy returns a policy as a Go expression.
func Policy(p priority.Policy) string {
	thresholds := make([]string, len(p.Thresholds))
	for i, threshold := range p.Thresholds {
		thresholds[i] = fmt.Sprint(threshold)
	}
	return fmt.Sprintf("priority.Policy{\n\tThresholds:    []int64{%s},\n\tResetInterval: %s,\n\tResetMode:     priority.%s,\n}",
		strings.Join(thresholds, ", "), Duration(p.ResetInterval), p.ResetMode)
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
