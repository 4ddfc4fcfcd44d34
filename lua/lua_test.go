package lua

import (
	"maps"
	"strings"
	"testing"
	"time"
)

var scripts = map[string]string{"next.lua": Next, "submit.lua": Submit, "done.lua": Done, "peek.lua": Peek, "reset.lua": Reset, "change.lua": Change, "forget.lua": Forget, "follow.lua": Follow, "report.lua": Report}

// What the scripts have in common must stay the same.
func TestScriptsShareTheirBlocks(t *testing.T) {
	first := make(map[string]string) // the text of a block
	found := make(map[string]int)
	for file, rest := range scripts {
		for {
			_, block, ok := strings.Cut(rest, "-- begin ")
			if !ok {
				break
			}
			name, lines, _ := strings.Cut(block, "\n")
			if lines, rest, ok = strings.Cut(lines, "-- end "+name+"\n"); !ok {
				t.Fatalf("%s: the block %q has no end", file, name)
			}
			found[name]++
			if before, ok := first[name]; ok && before != lines {
				t.Errorf("%s: the block %q differs from another file's:\n%s\n%s", file, name, lines, before)
			}
			first[name] = lines
		}
	}
	if want := map[string]int{"policy": 1, "levels": 2, "lease": 2, "turns": 2, "queue": 3, "override": 3, "history": 2, "loads": 2}; !maps.Equal(found, want) {
		t.Errorf("the scripts have the blocks %v, want %v", found, want)
	}
}

// The files have the default policy and lease.
func TestScriptsArePrintedWithTheDefaultNumbers(t *testing.T) {
	numbers := Numbers{
		Thresholds: []int64{-2, -4, -6, -8, -10, -12, -14, -20},
		Interval:   1500 * time.Second, Lease: 24 * time.Hour, Levels: 9,
		Loads: []int64{2e6, 8e6, 32e6, 128e6, 512e6, 2048e6, 8192e6, 32768e6},
	}
	for file, text := range scripts {
		if got := With(text, numbers); got != text {
			t.Errorf("%s with the default numbers is\n%s", file, got)
		}
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
