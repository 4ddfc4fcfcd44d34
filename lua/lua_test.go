package lua

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/fair"
)

// defaults are the default policy, lease and queue.
var defaults = Numbers{
	Thresholds: []int64{-2, -4, -6, -8, -10, -12, -14, -20},
	Interval:   1500 * time.Second, Lease: 24 * time.Hour, Levels: 9,
	Loads: fair.Loads(9), Turns: 3,
}

// Each file runs as it is: with the default numbers, and with what it has in common with
// others. To change that, edit the first one.
func TestFilesAreComposed(t *testing.T) {
	for file, text := range composed(t) {
		checkCopy(t, file, text)
	}
}

func composed(t *testing.T) map[string]string {
	t.Helper()
	blocks := defaults.blocks()
	for name, file := range map[string]string{"pending": "submit.lua", "due": "submit.lua", "override": "next.lua"} {
		_, block, _ := strings.Cut(read(t, file), "-- begin "+name+"\n")
		blocks[name], _, _ = strings.Cut(block, "-- end "+name+"\n")
	}
	texts := make(map[string]string)
	files, err := filepath.Glob("*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		texts[file] = read(t, file)
		for name, lines := range blocks {
			texts[file] = replaceBlock(texts[file], name, lines)
		}
	}
	return texts
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
