package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func rehearsalOf(t *testing.T, tree tree) *rehearsal {
	t.Helper()
	r, err := release(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.remove)
	return r
}

func TestWhatIsReleasedCanBeUsed(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	r := rehearsalOf(t, tree)
	for name, err := range map[string]error{
		"tidy":     r.tidy(t.Context()),
		"consumer": r.consumer(t.Context()),
		"snippets": r.snippets(t.Context()),
		"installs": r.installs(t.Context()),
		"doc":      r.documented(t.Context()),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	licence := filepath.Join(r.dir, "modules", filepath.FromSlash(rootPath), "page@v0.1.0", "LICENSE")
	if _, err := os.Stat(licence); err != nil {
		t.Errorf("a module has not the licence of the repository: %v", err)
	}
	if changes := mustGit(t, tree, "status", "--porcelain"); changes != "" {
		t.Errorf("a rehearsal changes\n%s", changes)
	}
	if tags := mustGit(t, tree, "tag"); tags != "" {
		t.Errorf("a rehearsal tags %s", tags)
	}
}

// What is rehearsed is what is in the tree: edits, new files and deletions that are
// not committed too, and nothing that git ignores.
func TestTheTreeIsRehearsedAsItIs(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	put(t, tree, "old.go", "package priority\n")
	commitAll(t, tree)
	if err := os.Remove(tree.at("old.go")); err != nil {
		t.Fatal(err)
	}
	put(t, tree, "new/new.go", "package new\n")
	put(t, tree, ".gitignore", "*.out\n")
	put(t, tree, "ignored.out", "\n")
	edit(t, tree, "priority.go", "return 1", "return 2")
	r := rehearsalOf(t, tree)
	if err := r.consumer(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := filepath.Join(r.dir, "modules", filepath.FromSlash(rootPath)+"@v0.1.0")
	for name, there := range map[string]bool{"new/new.go": true, "old.go": false, "ignored.out": false} {
		if _, err := os.Stat(filepath.Join(got, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(got, "priority.go")); !strings.Contains(string(text), "return 2") {
		t.Errorf("the edit is not in it: %s, %v", text, err)
	}
}

// After a release there is no version in preparation until the changelog has one. The
// next patch is rehearsed then.
func TestAfterAReleaseTheNextOneIsRehearsed(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	if err := prepare(t.Context(), tree, "v0.1.0", day); err != nil {
		t.Fatal(err)
	}
	commitAll(t, tree)
	if err := tag(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	r := rehearsalOf(t, tree)
	if r.version != "v0.1.1" {
		t.Errorf("%s is rehearsed", r.version)
	}
	if err := r.installs(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnUntidyGoModIsSeen(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	edit(t, tree, "examples/queues/queues.go", "import _ \""+rootPath+"\"\n", "")
	wantError(t, tidy(t.Context(), tree), "examples/queues/go.mod is not tidy")
}

// The README uses what is there. What a document takes as given may be missing.
func TestASnippetOfWhatIsNotPublishedIsSeen(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	text := "```go\nlevel, given := priority.Level(customer), 1\n```\n\n```go\npriority.Submit(ctx)\n```\n\n```go\nfunc f() { priority.Done() }\n```\n"
	if err := tree.write("page/README.md", text); err != nil {
		t.Fatal(err)
	}
	err := rehearsalOf(t, tree).snippets(t.Context())
	wantError(t, err, "page/README.md:6: undefined: priority.Submit")
	wantError(t, err, "page/README.md:10: undefined: priority.Done")
	if strings.Contains(err.Error(), "customer") || strings.Contains(err.Error(), "README.md:2:") {
		t.Errorf("what is given is missing: %v", err)
	}
}

func TestAChangeThatBreaksProgramsWantsAVersionThatSaysSo(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	if err := prepare(t.Context(), tree, "v0.1.0", day); err != nil {
		t.Fatal(err)
	}
	commitAll(t, tree)
	if err := tag(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	edit(t, tree, "priority.go", "func Level(any) int { return 1 }", "func Level(any) int { return 1 }\n\n// Last is nine.\nfunc Last() int { return 9 }")
	if err := rehearsalOf(t, tree).compatible(t.Context()); err != nil {
		t.Errorf("a new function: %v", err)
	}
	edit(t, tree, "priority.go", "func Level(any) int", "func Level(any, ...any) int")
	wantError(t, rehearsalOf(t, tree).compatible(t.Context()), "programs with "+rootPath+" v0.1.0 do not compile with v0.1.1")
	edit(t, tree, "CHANGELOG.md", "## v0.1.0 - 2026-11-22", "## v0.2.0 - unreleased\n\n- Other.\n\n## v0.1.0 - 2026-11-22")
	if err := rehearsalOf(t, tree).compatible(t.Context()); err != nil {
		t.Errorf("a new minor version: %v", err)
	}
}

// A temporary folder that stays fills a machine.
func TestARehearsalLeavesNothingBehind(t *testing.T) {
	tree := newTree(t)
	t.Setenv("TMPDIR", t.TempDir())
	if err := tidy(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	if err := tree.write("Priority.go", "package priority\n"); err != nil {
		t.Fatal(err)
	}
	wantError(t, check(t.Context(), tree), "case-insensitive file name collision")
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, error %v", left, err)
	}
}

func TestAWrongCallIsTold(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	for arguments, says := range map[string]string{
		"":              "release: which command?",
		"publish":       `release: there is no command "publish"`,
		"check now":     `release: unexpected argument "now"`,
		"prepare":       "release: prepare takes one version, such as v0.2.0",
		"prepare 1.0.0": `release: "1.0.0" is not a version such as v0.2.0`,
		"start x.md":    "release: stat x.md: no such file or directory",
	} {
		command := programIn(t, tree.dir, strings.Fields(arguments)...)
		said, err := command.CombinedOutput()
		if command.ProcessState.ExitCode() != 2 || !strings.HasPrefix(string(said), says) || !strings.Contains(string(said), "Usage:") {
			t.Errorf("%q: %v\n%s", arguments, err, said)
		}
	}
	command := programIn(t, tree.at("page"), "check")
	if said, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != 2 || !strings.Contains(string(said), "not the root") {
		t.Errorf("in a folder: %s", said)
	}
}

// To compare a module takes half a minute.
func TestOnlyModulesThatHaveChangedAreCompared(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	mustGit(t, tree, "tag", "v0.0.9")
	r := &rehearsal{copied: tree}
	var err error
	if r.modules, err = tree.modules(t.Context()); err != nil {
		t.Fatal(err)
	}
	changed := func() (found []string) {
		for _, module := range r.modules {
			has, err := r.hasChanged(t.Context(), module, "v0.0.9")
			if err != nil {
				t.Fatal(err)
			}
			if has {
				found = append(found, module.folder)
			}
		}
		return found
	}
	for _, step := range []struct{ file, want string }{
		{"README.md", ""}, {"new_test.go", ""}, {"page/inner/new.go", "page"}, {"inner/new.go", ". page"},
	} {
		put(t, tree, step.file, "package inner\n")
		commitAll(t, tree)
		if got := strings.Join(changed(), " "); got != step.want {
			t.Errorf("after a change of %s, %q has changed and not %q", step.file, got, step.want)
		}
	}
}
