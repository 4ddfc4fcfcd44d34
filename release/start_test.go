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
	if out, err := exec.Command(python, "-c", "import build, hatchling, twine, ensurepip, redis, celery").CombinedOutput(); err != nil {
		redistest.Skip(t, fmt.Sprintf("%s: apt-get install python3-build python3-hatchling twine python3-venv python3-redis python3-celery", out))
	}
	dist := t.TempDir()
	// The check would miss what Debian's hatchling wants for editable installs only.
	run(t, filepath.Join(r.tree, "clients/python"), nil, python, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", dist)
	checkDistributions(t, python, dist)
	return section, []string{
		"PATH=" + filepath.Dir(python) + ":" + os.Getenv("PATH"),
		"PIP_NO_INDEX=1", "PIP_FIND_LINKS=" + dist, "PYTHONPATH=/usr/lib/python3/dist-packages",
	}
}

// checkDistributions checks what would be uploaded to PyPI: that the page renders there, and
// what is in the wheel and in the source distribution. Hatchling has refused unknown
// classifiers before.
func checkDistributions(t *testing.T, python, dist string) {
	t.Helper()
	run(t, dist, nil, "sh", "-c", python+" -m twine check --strict *") // with a warning, it fails
	name := "docpriority-" + strings.TrimPrefix(version, "v")
	wheel := run(t, dist, nil, python, "-m", "zipfile", "--list", name+"-py3-none-any.whl")
	source := run(t, dist, nil, python, "-m", "tarfile", "--list", name+".tar.gz")
	for _, file := range []string{"py.typed", "celery.py", "testing.py", "lua/next.lua"} {
		if !strings.Contains(wheel, "docpriority/"+file) || !strings.Contains(source, name+"/src/docpriority/"+file) {
			t.Errorf("there is no %s in the wheel:\n%s\nor in the source:\n%s", file, wheel, source)
		}
	}
	for _, file := range []string{"LICENSE", "README.md", "PKG-INFO"} {
		if !strings.Contains(source, name+"/"+file) {
			t.Errorf("there is no %s in the source:\n%s", file, source)
		}
	}
	for _, file := range []string{"/tests/", "/conformance/", "_test.go", "__pycache__"} {
		if strings.Contains(wheel+source, file) {
			t.Errorf("%s is for this project alone:\n%s\n%s", file, wheel, source)
		}
	}
	metadata := run(t, dist, nil, python, "-c",
		"import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]).decode())",
		name+"-py3-none-any.whl", name+".dist-info/METADATA")
	for _, line := range []string{
		"Version: " + strings.TrimPrefix(version, "v"), "License-Expression: MIT", "License-File: LICENSE", "Description-Content-Type: text/markdown",
		"Provides-Extra: celery", "Project-URL: Changelog, ", "Classifier: Framework :: Celery",
	} {
		if !strings.Contains(metadata, "\n"+line) {
			t.Errorf("the metadata have no %q", line)
		}
	}
	if relative := regexp.MustCompile(`\]\((?:\.|[a-z]+/)[^)]*\)`).FindString(metadata); relative != "" {
		t.Errorf("on PyPI's page %s leads nowhere", relative)
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
