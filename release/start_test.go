package release

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
)

// start does what docs/start.md says for Go, to the letter: in an empty folder, with an empty
// Redis and what is released.
func (r *rehearsal) start(t *testing.T) {
	page := string(markdown.Read(t, filepath.Join(r.tree, "docs/start.md")))
	_, section, found := strings.Cut(page, "\n## Go\n")
	if !found {
		t.Fatal("docs/start.md has no section Go")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	// Each call has 250 ms, which a machine that is busy with others' work may not keep.
	for try := 3; ; try-- {
		server := redistest.Start(t)
		err := follow(t, strings.ReplaceAll(section, "localhost:6379", server.Addr), r.env)
		if err == nil {
			return
		}
		if try == 1 {
			t.Fatal(err)
		}
		t.Logf("once more: %v", err)
	}
}

// fileName is how a line before a block names the file that it is: `main.go`:
var fileName = regexp.MustCompile("`([^`]+)`:$")

// follow writes the files of a section and runs its commands, in an empty folder. Where it
// shows what a command prints, "…" stands for any lines.
func follow(t *testing.T, section string, env []string) error {
	t.Helper()
	dir := t.TempDir()
	for _, block := range markdown.Page(section).Fences() {
		if name := fileName.FindStringSubmatch(block.Before); name != nil {
			write(t, filepath.Join(dir, name[1]), block.Text)
			continue
		}
		switch block.Language {
		case "sh":
			run(t, dir, env, "sh", "-ec", block.Text)
		case "console":
			for exchange := range strings.SplitSeq(strings.TrimPrefix(block.Text, "$ "), "\n$ ") {
				command, want, _ := strings.Cut(exchange, "\n")
				got := run(t, dir, env, "sh", "-ec", command+" 2>&1")
				pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)+"\n"), "…\n", "(?s:.*)")
				if !regexp.MustCompile("^" + pattern + "$").MatchString(got + "\n") {
					return fmt.Errorf("$ %s\nprints\n%s\nand not\n%s", command, got, want)
				}
			}
		default:
			return fmt.Errorf("a block of %s is no command, and no file is named before it", block.Language)
		}
	}
	return nil
}
