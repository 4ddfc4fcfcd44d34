package main

import (
	"context"
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
