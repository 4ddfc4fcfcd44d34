package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// writesTheVersion checks what release/release -n has changed.
func (r *rehearsal) writesTheVersion(t *testing.T) {
	tags := run(t, r.tree, nil, "git", "tag", "--points-at", "HEAD")
	if !strings.HasPrefix(tags, "cmd/priorityctl/"+version+"\n") || !strings.HasSuffix(tags, "\n"+version) {
		t.Errorf("the tags are %s", tags)
	}
	if !strings.Contains(r.published, "git push --atomic origin HEAD "+strings.Join(strings.Fields(tags)[:1], " ")) || !strings.HasSuffix(r.published, "npm publish ./clients/nodejs") {
		t.Errorf("it would publish by\n%s", r.published)
	}
	changed := strings.Fields(run(t, r.tree, nil, "git", "diff", "--name-only", "HEAD^"))
	wanted := append(strings.Fields(run(t, r.tree, nil, "git", "grep", "-lE", root+"[^ ]* v[0-9]", "--", "*go.mod", "go.work")),
		"CHANGELOG.md", "clients/nodejs/package.json", "clients/python/pyproject.toml",
		"clients/python/src/docpriority/__init__.py")
	if len(changed) != len(wanted) {
		t.Errorf("it changes %q, and not %q", changed, wanted)
	}
	for _, file := range wanted {
		lines := run(t, r.tree, nil, "git", "diff", "--unified=0", "HEAD^", "--", file)
		added, removed := strings.Count(lines, "\n+")-1, strings.Count(lines, "\n-")-1
		if added < 1 || added != removed || strings.Count(lines, strings.TrimPrefix(version, "v")) < added {
			t.Errorf("%s:\n%s", file, lines)
		}
	}
	run(t, r.tree, nil, "go", "list", "./...", "./cmd/priorityctl") // go.work replaces the version
}

// refuses checks what release/release refuses to release.
func (r *rehearsal) refuses(t *testing.T) {
	refused := func(says, version string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "release/release", "-n", version)
		cmd.Dir = r.tree
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%q: %v\n%s", version, err, out)
		}
	}
	for _, wrong := range []string{"", "1.2.3", "v1.2", "v1.2.3-rc.1", "v2.0.0"} {
		refused("usage: release/release [-n] v0.2.0", wrong)
	}
	refused("is tagged already", version)
	edited := filepath.Join(r.tree, "edited")
	write(t, edited, "")
	refused("commit your changes first", version+"0")
	if err := os.Remove(edited); err != nil {
		t.Fatal(err)
	}
}
