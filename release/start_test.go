package release

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/testing/markdown"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// TestUntilTheRelease does in each language what docs/start.md says, with what it says to
// install from a clone.
func TestUntilTheRelease(t *testing.T) {
	clone, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	install := section(t, clone, "Until the release")
	_, install, _ = strings.Cut(strings.ReplaceAll(install, "$HOME/priority", clone), "```\n") // git clone
	for _, language := range []struct {
		name string
		env  []string
	}{
		{name: "Go", env: []string{"GOWORK=off", goFlags}},
		// Debian's packages stand for PyPI's, and the build's are not downloaded.
		{name: "Python", env: []string{"PIP_NO_INDEX=1", "PIP_NO_BUILD_ISOLATION=false", "PYTHONWARNINGS=ignore"}},
		{name: "Node.js", env: []string{"npm_config_audit=false", "npm_config_fund=false", "npm_config_ignore_scripts=true"}},
	} {
		var block string
		_, install, _ = strings.Cut(install, "```sh\n")
		block, install, _ = strings.Cut(install, "```\n")
		t.Run(language.name, func(t *testing.T) {
			t.Parallel()
			page := section(t, clone, language.name)
			before, rest, _ := strings.Cut(page, "```sh\n")
			_, after, _ := strings.Cut(rest, "```\n")
			page = before + "```sh\n" + block + "```\n" + after
			if language.name == "Python" {
				if err := exec.Command("/usr/bin/python3", "-c", "import celery, hatchling, redis").Run(); err != nil {
					redistest.Skip(t, "apt-get install python3-celery python3-hatchling python3-redis python3-venv")
				}
				page = strings.ReplaceAll(page, "python3 -m venv ", "/usr/bin/python3 -m venv --system-site-packages ")
			}
			try(t, page, language.env)
		})
	}
}

// section returns a section of docs/start.md.
func section(t *testing.T, tree, title string) string {
	t.Helper()
	_, section, found := strings.Cut(string(markdown.Read(t, filepath.Join(tree, "docs/start.md"))), "\n## "+title+"\n")
	if !found {
		t.Fatalf("docs/start.md has no section %q", title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// try follows a section with an empty Redis. Each call of a program has 250 ms, which a
// machine that is busy with others' work may not keep, so it may fail twice.
func try(t *testing.T, section string, env []string) {
	t.Helper()
	for left := 3; ; left-- {
		server := redistest.Start(t)
		err := follow(t, strings.ReplaceAll(section, "localhost:6379", server.Addr), env)
		if err == nil {
			return
		}
		if left == 1 {
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
