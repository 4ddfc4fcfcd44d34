package gocode_test

import (
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/gocode"
)

func TestAPolicyIsPrintedAsGoCode(t *testing.T) {
	for _, test := range []struct {
		policy priority.Policy
		want   string
	}{
		{priority.DefaultPolicy(), `priority.Policy{
	Thresholds:    []int64{-2, -4, -6, -8, -10, -12, -14, -20},
	ResetInterval: 25 * time.Minute,
	ResetMode:     priority.SinceLastUpdate,
}`},
		{priority.Policy{Thresholds: []int64{}, ResetInterval: 1500 * time.Millisecond, ResetMode: priority.SinceLastReset, Loads: []float64{0.5}, Turns: 13}, `priority.Policy{
	Thresholds:    []int64{},
	ResetInterval: 1500 * time.Millisecond,
	ResetMode:     priority.SinceLastReset,
	Loads:         []float64{0.5},
	Turns:         13,
}`},
		{priority.Policy{Thresholds: []int64{-2, -4, -6, -8, -10, -12, -14, -20}, ResetInterval: time.Hour, Loads: []float64{8, 64, 512, 8192, 32768}}, `priority.Policy{
	Thresholds:    []int64{-2, -4, -6, -8, -10, -12, -14, -20},
	ResetInterval: 1 * time.Hour,
	ResetMode:     priority.SinceLastUpdate,
	Loads:         []float64{8, 64, 512, 8192, 32768},
	Turns:         0,
}`},
	} {
		if got := gocode.Policy(test.policy); got != test.want {
			t.Errorf("got\n%s\nwant\n%s", got, test.want)
		}
	}
}
