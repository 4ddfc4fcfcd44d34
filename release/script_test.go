package release

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRelease_WritesTheVersion(t *testing.T) {
	t.Parallel()
	tree := copyTree(t)
	lines := run(t, tree, nil, "release/release", "-n", version)
	tags := run(t, tree, nil, "git", "tag", "--points-at", "HEAD")
	if !strings.HasPrefix(tags, "cmd/priorityctl/"+version+"\n") || !strings.HasSuffix(tags, "\n"+version) {
		t.Errorf("the tags are %s", tags)
	}
	if !strings.Contains(lines, "git push --atomic origin HEAD "+strings.Join(strings.Fields(tags)[:1], " ")) || !strings.HasSuffix(lines, "npm publish ./clients/nodejs") {
		t.Errorf("it would publish by\n%s", lines)
	}
	changed := strings.Fields(run(t, tree, nil, "git", "diff", "--name-only", "HEAD^"))
	wanted := append(strings.Fields(run(t, tree, nil, "git", "grep", "-lE", root+"[^ ]* v[0-9]", "--", "*go.mod", "go.work")),
		"CHANGELOG.md", "clients/nodejs/package-lock.json", "clients/nodejs/package.json", "clients/python/pyproject.toml",
		"clients/python/src/docpriority/__init__.py")
	if len(changed) != len(wanted) {
		t.Errorf("it changes %q, and not %q", changed, wanted)
	}
	for _, file := range wanted {
		lines := run(t, tree, nil, "git", "diff", "--unified=0", "HEAD^", "--", file)
		added, removed := strings.Count(lines, "\n+")-1, strings.Count(lines, "\n-")-1
		if added < 1 || added != removed || strings.Count(lines, strings.TrimPrefix(version, "v")) < added {
			t.Errorf("%s:\n%s", file, lines)
		}
	}
	run(t, tree, nil, "go", "list", "./...", "./cmd/priorityctl") // go.work replaces the version
}

func TestRelease_Refused(t *testing.T) {
	t.Parallel()
	tree := copyTree(t)
	refused := func(says, version string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "release/release", "-n", version)
		cmd.Dir = tree
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%q: %v\n%s", version, err, out)
		}
	}
	for _, wrong := range []string{"", "1.2.3", "v1.2", "v1.2.3-rc.1", "v2.0.0"} {
		refused("usage: release/release [-n] v0.2.0", wrong)
	}
	write(t, filepath.Join(tree, "edited"), "")
	refused("commit your changes first", version)
	run(t, tree, nil, "rm", "edited")
	run(t, tree, nil, "release/release", "-n", version)
	refused("is tagged already", version)
}
