package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each of these makes a go.mod that works in the repository and for nobody else, or
// versions that do not go together. Nothing is released then.
func TestNothingIsReleasedThatUsersCannotInstall(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]struct{ file, old, text, says string }{
		"a replace": {
			"page/go.mod", "\nrequire ", "\nreplace " + rootPath + " => ../\n\nrequire ",
			"page/go.mod replaces " + rootPath + ":",
		},
		"a version that is not tagged": {
			"priorityotel/go.mod", "v0.1.0", "v0.9.0",
			"priorityotel/go.mod requires " + rootPath + " v0.9.0, which is neither tagged nor in preparation (CHANGELOG.md has v0.1.0)",
		},
		"an example with a replace": {
			"examples/queues/go.mod", "\nrequire ", "\nreplace " + rootPath + " => ../../\n\nrequire ",
			"examples/queues/go.mod replaces " + rootPath + ":",
		},
		"a module that is not published": {
			"page/go.mod", "require " + rootPath, "require " + rootPath + "/examples/queues",
			"page/go.mod requires " + rootPath + "/examples/queues, which is not published",
		},
		"a package of npm that is behind": {
			"clients/nodejs/package.json", "0.1.0", "0.0.9",
			"clients/nodejs/package.json has v0.0.9, and page/go.mod has v0.1.0: all versions go in lock-step",
		},
		"a package of Python that is ahead": {
			"clients/python/pyproject.toml", "0.1.0", "0.2.0",
			"clients/python/pyproject.toml has v0.2.0",
		},
		"a workspace without a module": {
			"go.work", "\t./examples/queues\n", "", "go.work does not use ./examples/queues",
		},
		"a workspace for another version": {
			"go.work", "priority v0.1.0 =>", "priority v0.0.9 =>", "go.work does not replace " + rootPath + " v0.1.0",
		},
		"a changelog without a version": {
			"CHANGELOG.md", "v0.1.0 - unreleased", "Unreleased", `CHANGELOG.md: the first heading is "## Unreleased"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := newTree(t)
			if err := made.rules(t.Context()); err != nil {
				t.Fatal(err)
			}
			edit(t, made, broken.file, broken.old, broken.text)
			for command, do := range map[string]func(context.Context, tree) error{"check": check, "tidy": tidy, "rehearse": rehearse} {
				t.Log(command)
				wantError(t, do(t.Context(), made), broken.says)
			}
			commitAll(t, made)
			wantError(t, tag(t.Context(), made), broken.says)
			if tags := mustGit(t, made, "tag"); tags != "" {
				t.Errorf("the tags are %q", tags)
			}
		})
	}
}

// Between two releases the go.mod files name the last one, until prepare.
func TestAVersionThatIsTaggedMayBeRequired(t *testing.T) {
	t.Parallel()
	made := newTree(t)
	mustGit(t, made, "tag", "v0.1.0")
	mustGit(t, made, "tag", "page/v0.1.0")
	edit(t, made, "CHANGELOG.md", "## v0.1.0 - unreleased", "## v0.2.0 - unreleased\n\n- More.\n\n## v0.1.0 - 2026-11-22")
	if err := made.rules(t.Context()); err != nil {
		t.Error(err)
	}
	mustGit(t, made, "tag", "--delete", "page/v0.1.0")
	wantError(t, made.rules(t.Context()), "cmd/priorityctl/go.mod requires "+rootPath+"/page v0.1.0, which is neither tagged nor in preparation")
}

// released is a tree after v0.1.0 and before v0.2.0.
func released(t *testing.T) tree {
	t.Helper()
	made := newTree(t)
	edit(t, made, "CHANGELOG.md", "## v0.1.0 - unreleased", "## v0.2.0 - unreleased\n\n- More.\n\n## v0.1.0 - 2026-11-22")
	commitAll(t, made)
	return made
}

func TestATagThatWasNotFetchedIsToldOnce(t *testing.T) {
	t.Parallel()
	made := released(t)
	mustGit(t, made, "tag", "v0.0.9")
	for command, do := range map[string]func(context.Context, tree) error{"rules": func(ctx context.Context, made tree) error { return made.rules(ctx) }, "tag": tag} {
		if err := do(t.Context(), made); err == nil || err.Error() != "CHANGELOG.md has v0.1.0, and this repository has no such tag: git fetch --tags" {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// CI may fetch one commit and no tag. A check and a rehearsal work there; a release,
// which has to know what there is, does not.
func TestACloneWithoutTagsBelievesTheChangelog(t *testing.T) {
	made := released(t)
	for _, name := range []string{"v0.1.0", "page/v0.1.0", "priorityotel/v0.1.0", "cmd/priorityctl/v0.1.0"} {
		mustGit(t, made, "tag", name)
	}
	cloned := tree{t.TempDir()}
	mustGit(t, made, "clone", "--quiet", "--depth", "1", "--no-tags", "file://"+made.dir, cloned.dir)
	r := rehearsalOf(t, cloned)
	if r.version != "v0.2.0" {
		t.Errorf("%s is rehearsed", r.version)
	}
	for name, do := range map[string]func(context.Context) error{"tidy": r.tidy, "consumer": r.consumer, "installs": r.installs} {
		if err := do(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	said := printed(t, func() {
		if err := r.compatible(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(said, "NOT COMPARED") || !strings.Contains(said, "git fetch --tags") {
		t.Errorf("nobody is told that the interface is not compared: %s", said)
	}
	wantError(t, tag(t.Context(), cloned), "no such tag: git fetch --tags")
	wantError(t, prepare(t.Context(), cloned, "v0.2.0", day), "no such tag: git fetch --tags")
	edit(t, cloned, "page/go.mod", "v0.1.0", "v0.0.9")
	wantError(t, cloned.rules(t.Context()), "page/go.mod requires "+rootPath+" v0.0.9, which is neither tagged nor in preparation")
}

// printed is what a function prints.
func printed(t *testing.T, do func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before := os.Stdout
	os.Stdout = file
	defer func() { os.Stdout = before }()
	do()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
