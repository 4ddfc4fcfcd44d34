package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var day = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestPrepareWritesTheVersionEverywhere(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	edit(t, tree, "CHANGELOG.md", "v0.1.0", "v0.2.0")
	commitAll(t, tree)
	mustGit(t, tree, "tag", "v0.1.0")
	mustGit(t, tree, "tag", "page/v0.1.0")
	if err := prepare(t.Context(), tree, "v0.2.0", day); err != nil {
		t.Fatal(err)
	}
	for file, says := range map[string]string{
		"CHANGELOG.md":                               "## v0.2.0 - 2026-11-22\n",
		"page/go.mod":                                "require " + rootPath + " v0.2.0",
		"examples/queues/go.mod":                     "require " + rootPath + " v0.2.0",
		"cmd/priorityctl/go.sum":                     rootPath + "/page v0.2.0 h1:",
		"clients/python/pyproject.toml":              `version = "0.2.0"`,
		"clients/nodejs/package.json":                `"version": "0.2.0"`,
		"clients/nodejs/package-lock.json":           `"version": "0.2.0"`,
		"clients/python/src/docpriority/__init__.py": `__version__ = "0.2.0"`,
		"examples/nodejs/package-lock.json":          `"version": "0.2.0"`,
		"go.work":                                    "// Why it is so.\nreplace (\n\t" + rootPath + " v0.2.0 => ./\n",
	} {
		if text := readText(t, tree, file); !strings.Contains(text, says) || strings.Contains(text, "0.1.0") {
			t.Errorf("%s does not say %q, or v0.1.0 too:\n%s", file, says, text)
		}
	}
	if err := tree.rules(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsPreparedStaysAsItIs(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	if err := prepare(t.Context(), tree, "v0.1.0", day); err != nil {
		t.Fatal(err)
	}
	commitAll(t, tree)
	if err := prepare(t.Context(), tree, "v0.1.0", day.AddDate(0, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if changes := mustGit(t, tree, "status", "--porcelain"); changes != "" {
		t.Errorf("a second prepare changes\n%s", changes)
	}
}

func TestPrepareRefusesWhatIsNoNewVersion(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	mustGit(t, tree, "tag", "v0.1.0")
	for version, says := range map[string]string{
		"v0.1.0":      "v0.1.0 is not above v0.1.0, the last tag",
		"v0.0.9":      "v0.0.9 is not above v0.1.0, the last tag",
		"v0.2.0":      `say under "## v0.2.0 - unreleased" what is new`,
		"0.2.0":       `"0.2.0" is not a version`,
		"v0.2":        `"v0.2" is not a version`,
		"v0.2.0-rc.1": `"v0.2.0-rc.1" is not a version`,
		"v2.0.0":      "module paths, that end with /v2",
	} {
		err := prepare(t.Context(), tree, version, day)
		wantError(t, err, says)
		if isWrong := errors.As(err, new(wrongCall)); isWrong != strings.Contains(says, "is not a version") && version != "v2.0.0" {
			t.Errorf("%s: a wrong call: %v", version, isWrong)
		}
	}
	edit(t, tree, "CHANGELOG.md", "## v0.1.0 - unreleased\n\n- A level.\n", "## v0.2.0 - unreleased\n\nSoon.\n")
	wantError(t, prepare(t.Context(), tree, "v0.2.0", day), "commit these first, or undo them:\nM CHANGELOG.md")
	commitAll(t, tree)
	wantError(t, prepare(t.Context(), tree, "v0.2.0", day), "CHANGELOG.md does not say what is new in v0.2.0")
	if changes := mustGit(t, tree, "status", "--porcelain"); changes != "" {
		t.Errorf("what was refused has changed\n%s", changes)
	}
}

func TestTheTagsAreThoseOfThePreparedCommit(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	wantError(t, tag(t.Context(), tree), `this is not what "prepare v0.1.0" makes; it would change:`)
	if err := prepare(t.Context(), tree, "v0.1.0", day); err != nil {
		t.Fatal(err)
	}
	wantError(t, tag(t.Context(), tree), "commit these first, or undo them:")
	commitAll(t, tree)
	mustGit(t, tree, "tag", "page/v0.1.0")
	wantError(t, tag(t.Context(), tree), "the tag page/v0.1.0 is there already")
	if tags := mustGit(t, tree, "tag"); tags != "page/v0.1.0" {
		t.Errorf("it is refused, and the tags are %q", tags)
	}
	mustGit(t, tree, "tag", "--delete", "page/v0.1.0")
	if err := tag(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	said := mustGit(t, tree, "for-each-ref", "--sort=taggerdate", "--format=%(refname:short) %(objecttype) %(*objectname)", "refs/tags")
	head := mustGit(t, tree, "rev-parse", "HEAD")
	for _, name := range []string{"v0.1.0", "page/v0.1.0", "priorityotel/v0.1.0", "cmd/priorityctl/v0.1.0"} {
		if !strings.Contains(said, name+" tag "+head) {
			t.Errorf("there is no tag %s of the commit:\n%s", name, said)
		}
	}
}

// A change after prepare, however small, makes other sums than those that it wrote.
func TestAChangeAfterPrepareIsNotTagged(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	if err := prepare(t.Context(), tree, "v0.1.0", day); err != nil {
		t.Fatal(err)
	}
	edit(t, tree, "README.md", "# priority", "# Priority")
	commitAll(t, tree)
	wantError(t, tag(t.Context(), tree), "M page/go.sum")
}

func TestWhoPreparesByHalvesHearsHowToUndoIt(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	if err := tree.write("Priority.go", "package priority\n"); err != nil {
		t.Fatal(err)
	}
	commitAll(t, tree)
	err := prepare(t.Context(), tree, "v0.1.0", day)
	wantError(t, err, "case-insensitive file name collision")
	wantError(t, err, "git checkout .")
	mustGit(t, tree, "checkout", "--quiet", ".")
	if changes := mustGit(t, tree, "status", "--porcelain"); changes != "" {
		t.Errorf("it stays\n%s", changes)
	}
}
