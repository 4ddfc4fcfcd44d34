package main

import (
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	start := time.Now()
	p := pause{ticked: start}
	for _, step := range []struct{ at, want time.Duration }{
		{tick, 0},
		{2*tick - 1, 0}, // a tick may come early
		{400*time.Millisecond + 3*tick, 400*time.Millisecond + 1},
		{400*time.Millisecond + 6*tick, 400*time.Millisecond + 1},
	} {
		p.note(start.Add(step.at))
		if p.longest != step.want {
			t.Errorf("at %v the longest pause is %v, want %v", step.at, p.longest, step.want)
		}
	}
}
