package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A repository of two small modules goes through releases.
func TestNoMinorVersionBreaksPrograms(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	script, err := os.ReadFile("apidiff")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(tree, "release/apidiff"), string(script))
	write(t, filepath.Join(tree, "go.mod"), "module "+root+"\n\ngo 1.25.0\n")
	write(t, filepath.Join(tree, "page/go.mod"), "module "+root+"/page\n\ngo 1.25.0\n")
	write(t, filepath.Join(tree, "page/page.go"), "package page\n\nfunc Page() {}\n")
	run(t, tree, nil, "git", "init", "--quiet")

	exports := func(code, internal string) {
		write(t, filepath.Join(tree, "priority.go"), "package priority\n\n"+code+"\n")
		write(t, filepath.Join(tree, "internal/fair/fair.go"), "package fair\n\n"+internal+"\n")
	}
	prepare := func(version string) {
		write(t, filepath.Join(tree, "CHANGELOG.md"), "# Changelog\n\n## "+version+" - unreleased\n")
	}
	release := func(version string) {
		run(t, tree, nil, "git", "add", ".")
		run(t, tree, nil, "git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null",
			"commit", "--quiet", "--message", version)
		for _, tag := range []string{version, "page/" + version} {
			run(t, tree, nil, "git", "-c", "tag.gpgSign=false", "tag", tag)
		}
	}
	says := func(refused bool, want string) {
		t.Helper()
		check := exec.CommandContext(t.Context(), "bash", "release/apidiff")
		check.Dir = tree
		out, err := check.CombinedOutput()
		if (err != nil) != refused || !strings.Contains(string(out), want) {
			t.Errorf("%v\n%swant %q", err, out, want)
		}
	}

	prepare("v0.1.0")
	exports("func Next() {}", "func Load() {}")
	says(false, "no release is tagged")
	release("v0.1.0")
	prepare("v0.1.1")
	exports("func Next(n int) {}", "func Load() {}")
	says(true, "- Next: changed from func() to func(int)")
	prepare("v0.2.0")
	says(false, "as a minor version before v1.0.0 may:\n"+root+"\n- Next: changed")
	prepare("v1.0.0")
	release("v1.0.0")
	says(false, "v1.0.0 breaks no program that was written for v1.0.0")

	prepare("v1.1.0")
	exports("func Next(n int) {}\n\nfunc Submit() {}", "func Score() {}")
	says(false, "v1.1.0 breaks no program")
	exports("func Submit() {}", "func Load() {}")
	says(true, "v1.1.0 would break programs that were written for v1.0.0:\n"+root+"\n- Next: removed")
	exports("func Next(n int) {}", "func Load() {}")
	write(t, filepath.Join(tree, "page/page.go"), "package page\n")
	says(true, root+"/page\n- Page: removed")
	if err := os.RemoveAll(filepath.Join(tree, "page")); err != nil {
		t.Fatal(err)
	}
	says(true, root+"/page is gone")
}
