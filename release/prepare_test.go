package release

import (
	"os/exec"
	"strings"
	"testing"
)

func TestPrepareWritesTheVersionEverywhere(t *testing.T) {
	t.Parallel()
	tree := copyTree(t)
	run(t, tree, nil, "release/prepare", version)
	changed := strings.Fields(run(t, tree, nil, "git", "diff", "--name-only"))
	wanted := append(strings.Fields(run(t, tree, nil, "git", "grep", "-lE", root+"[^ ]* v[0-9]", "--", "*go.mod", "go.work")),
		"CHANGELOG.md", "clients/nodejs/package-lock.json", "clients/nodejs/package.json", "clients/python/pyproject.toml",
		"clients/python/src/docpriority/__init__.py", "examples/nodejs/package-lock.json")
	if len(changed) != len(wanted) {
		t.Errorf("it changes %q, and not %q", changed, wanted)
	}
	for _, file := range wanted {
		lines := run(t, tree, nil, "git", "diff", "--unified=0", file)
		added, removed := strings.Count(lines, "\n+")-1, strings.Count(lines, "\n-")-1
		if added < 1 || added != removed || strings.Count(lines, strings.TrimPrefix(version, "v")) < added {
			t.Errorf("%s:\n%s", file, lines)
		}
	}
	run(t, tree, nil, "go", "list", "./...", "./cmd/priorityctl") // go.work replaces the version
}

func TestNothingIsTaggedThatIsNotPrepared(t *testing.T) {
	t.Parallel()
	tree := copyTree(t)
	refused := func(says string, command ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = tree
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%q: %v\n%s", command, err, out)
		}
	}
	for _, wrong := range []string{"", "1.2.3", "v1.2", "v1.2.3-rc.1", "v2.0.0"} {
		refused("usage: release/prepare v0.2.0", "release/prepare", wrong)
	}
	refused("release/prepare "+version+" first, and commit it", "release/tag", version)
	run(t, tree, nil, "release/prepare", version)
	refused("release/prepare "+version+" first, and commit it", "release/tag", version)
	run(t, tree, nil, "git", "commit", "--quiet", "--all", "--message", version)
	refused("release/prepare v1.2.3 first, and commit it", "release/tag", "v1.2.3")
	run(t, tree, nil, "release/tag", version)
	tags := run(t, tree, nil, "git", "tag", "--points-at", "HEAD")
	if !strings.HasPrefix(tags, "cmd/priorityctl/"+version+"\n") || !strings.HasSuffix(tags, "\n"+version) {
		t.Errorf("the tags are %s", tags)
	}
}
