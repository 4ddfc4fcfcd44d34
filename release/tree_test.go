package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The git of the tests has nothing of who runs them. With runsMain set, the tests'
// program is the command itself.
func TestMain(m *testing.M) {
	if os.Getenv(runsMain) != "" {
		main()
		return
	}
	if err := forgetRepository(context.Background()); err != nil {
		panic(err)
	}
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_AUTHOR_NAME": "test", "GIT_AUTHOR_EMAIL": "test@localhost",
		"GIT_COMMITTER_NAME": "test", "GIT_COMMITTER_EMAIL": "test@localhost",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

const runsMain = "RELEASE_RUNS_MAIN"

// programIn is the command in a folder.
func programIn(t *testing.T, dir string, arguments ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), runsMain+"=1")
	return command
}

// newTree makes a repository like this one, with next to nothing in it. It needs no
// module of anybody else.
func newTree(t *testing.T) tree {
	t.Helper()
	tree := tree{t.TempDir()}
	goLine := "\n\ngo " + strings.TrimPrefix(runtime.Version(), "go") + "\n"
	requires := func(names ...string) string {
		text := goLine
		for _, name := range names {
			text += "\nrequire " + name + " v0.1.0\n"
		}
		return text
	}
	for name, text := range map[string]string{
		"CHANGELOG.md":                               "# Changelog\n\n## v0.1.0 - unreleased\n\n- A level.\n",
		"LICENSE":                                    "MIT\n",
		"README.md":                                  "# priority\n\n```go\nfmt.Println(priority.Level(ctx)) // prints: 1\n```\n",
		"go.mod":                                     "module " + rootPath + goLine,
		"priority.go":                                "// Package priority has levels.\npackage priority\n\n// Level is one.\nfunc Level(any) int { return 1 }\n",
		"page/go.mod":                                "module " + rootPath + "/page" + requires(rootPath),
		"page/page.go":                               "// Package page is a page.\npackage page\n\nimport \"" + rootPath + "\"\n\n// Level is one.\nvar Level = priority.Level(nil)\n",
		"priorityotel/go.mod":                        "module " + rootPath + "/priorityotel" + requires(rootPath),
		"priorityotel/otel.go":                       "// Package priorityotel tells.\npackage priorityotel\n\nimport _ \"" + rootPath + "\"\n",
		"cmd/priorityctl/go.mod":                     "module " + rootPath + "/cmd/priorityctl" + requires(rootPath, rootPath+"/page"),
		"cmd/priorityctl/main.go":                    commandOfTest,
		"examples/queues/go.mod":                     "module " + rootPath + "/examples/queues" + requires(rootPath),
		"examples/queues/queues.go":                  "package queues\n\nimport _ \"" + rootPath + "\"\n",
		"clients/python/pyproject.toml":              "[project]\nname = \"docpriority\"\nversion = \"0.1.0\"\n",
		"clients/nodejs/package.json":                "{\n  \"name\": \"docpriority\",\n  \"version\": \"0.1.0\"\n}\n",
		"clients/nodejs/package-lock.json":           "{\n  \"name\": \"docpriority\",\n  \"version\": \"0.1.0\"\n}\n",
		"clients/python/src/docpriority/__init__.py": "__version__ = \"0.1.0\"\n",
		"examples/nodejs/package-lock.json":          "{\n  \"packages\": {\n    \"../../clients/nodejs\": {\n      \"name\": \"docpriority\",\n      \"version\": \"0.1.0\"\n    }\n  }\n}\n",
		"go.work": "go " + strings.TrimPrefix(runtime.Version(), "go") + `

use (
	.
	./cmd/priorityctl
	./examples/queues
	./page
	./priorityotel
)

// Why it is so.
replace (
	github.com/docpriority/priority v0.1.0 => ./
	github.com/docpriority/priority/page v0.1.0 => ./page
)
`,
	} {
		put(t, tree, name, text)
	}
	mustGit(t, tree, "init", "--quiet")
	commitAll(t, tree)
	return tree
}

const commandOfTest = `// Command priorityctl says which it is.
package main

import (
	"fmt"
	"runtime/debug"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/page"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Println("priorityctl "+info.Main.Version+",", priority.Level(nil), page.Level)
}
`

// put writes a file, and makes the folder that it is in.
func put(t *testing.T, tree tree, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(tree.at(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := tree.write(name, text); err != nil {
		t.Fatal(err)
	}
}

func commitAll(t *testing.T, tree tree) {
	t.Helper()
	mustGit(t, tree, "add", "--all")
	mustGit(t, tree, "commit", "--quiet", "--allow-empty", "--message", "test")
}

func mustGit(t *testing.T, tree tree, arguments ...string) string {
	t.Helper()
	said, err := tree.git(t.Context(), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// edit replaces text in a file of a tree, which has to have it.
func edit(t *testing.T, tree tree, name, old, text string) {
	t.Helper()
	before := readText(t, tree, name)
	if !strings.Contains(before, old) {
		t.Fatalf("%s has no %q:\n%s", name, old, before)
	}
	if err := tree.write(name, strings.ReplaceAll(before, old, text)); err != nil {
		t.Fatal(err)
	}
}

func readText(t *testing.T, tree tree, name string) string {
	t.Helper()
	text, err := tree.read(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wantError fails unless an error says something.
func wantError(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the error is %v, and does not say %q", err, says)
	}
}
