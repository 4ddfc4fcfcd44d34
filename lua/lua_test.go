package lua

import (
	"strings"
	"testing"
	"time"
)

var scripts = map[string]string{"next.lua": Next, "submit.lua": Submit, "done.lua": Done, "peek.lua": Peek, "reset.lua": Reset, "rules.lua": Rules, "follow.lua": Follow, "report.lua": Report}

// defaults are the default policy, lease and queue.
var defaults = Numbers{
	Thresholds: []int64{-2, -4, -6, -8, -10, -12, -14, -20},
	Interval:   1500 * time.Second, Lease: 24 * time.Hour, Levels: 9,
	Loads: []float64{8, 64, 512, 8192, 32768}, Turns: 3,
}

// Each file runs as it is: with the default numbers, and with what it has in common with
// others.
func TestFilesAreComposed(t *testing.T) {
	for file, text := range scripts {
		checkCopy(t, file, With(text, defaults))
	}
}

// A program in another language may read the contract of a script in its head.
func TestEachScriptIsHeadedByItsContract(t *testing.T) {
	for file, text := range scripts {
		for _, part := range []string{"KEYS", "Reply", "Errors", "Try it   redis-cli --eval " + file} {
			if !strings.Contains(text, "\n-- "+part) {
				t.Errorf("%s does not tell %q", file, part)
			}
		}
	}
}
