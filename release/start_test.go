package release

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
)

// start does what docs/start.md says, to the letter: each section in an empty folder, with
// an empty Redis and what is released.
func (r *rehearsal) start(t *testing.T) {
	page := string(markdown.Read(t, filepath.Join(r.tree, "docs/start.md")))
	languages := map[string]func(t *testing.T, section string) (string, []string){
		"Go":     func(_ *testing.T, section string) (string, []string) { return section, r.env },
		"Python": r.python, "Node.js": r.node,
	}
	for section := range strings.SplitSeq(page, "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		prepare, ok := languages[title]
		if !ok {
			if strings.Contains(section, "\n```") {
				t.Errorf("nobody does what section %q says", title)
			}
			continue
		}
		delete(languages, title)
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			section, env := prepare(t, section)
			// Each call has 250 ms, which a machine that is busy with others' work may not keep.
			for try := 3; ; try-- {
				server := redistest.Start(t)
				err := follow(t, strings.ReplaceAll(section, "localhost:6379", server.Addr), env)
				if err == nil {
					return
				}
				if try == 1 {
					t.Fatal(err)
				}
				t.Logf("once more: %v", err)
			}
		})
	}
	for title := range languages {
		t.Errorf("docs/start.md has no section %q", title)
	}
}

// python builds the wheel, and returns what pip installs it with: no index, and what Debian
// has installed counts as installed.
func (r *rehearsal) python(t *testing.T, section string) (string, []string) {
	const python = "/usr/bin/python3" // Debian's, whatever else is on the PATH
	if out, err := exec.Command(python, "-c", "import build, hatchling, ensurepip, redis, celery").CombinedOutput(); err != nil {
		redistest.Skip(t, fmt.Sprintf("%s: apt-get install python3-build python3-hatchling python3-venv python3-redis python3-celery", out))
	}
	dist := t.TempDir()
	// The check would miss what Debian's hatchling wants for editable installs only.
	run(t, filepath.Join(r.tree, "clients/python"), nil, python, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", dist)
	wheel := run(t, dist, nil, "sh", "-c", python+" -m zipfile --list *.whl")
	for _, file := range []string{"docpriority/py.typed", "docpriority/lua/next.lua", "LICENSE"} {
		if !strings.Contains(wheel, file) {
			t.Errorf("there is no %s in the wheel:\n%s", file, wheel)
		}
	}
	return section, []string{
		"PATH=" + filepath.Dir(python) + ":" + os.Getenv("PATH"),
		"PIP_NO_INDEX=1", "PIP_FIND_LINKS=" + dist, "PYTHONPATH=/usr/lib/python3/dist-packages",
	}
}

// node has the tarball, which npm installs in the place of what its registry has.
func (r *rehearsal) node(t *testing.T, section string) (string, []string) {
	_, tarball := r.tarball(t)
	return strings.Replace(section, "npm install docpriority", "npm install "+tarball, 1), npmEnv
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
