// Package release rehearses a release: it releases a copy of the tree on this machine, and
// does with it what users do, in empty folders.
package release

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "github.com/docpriority/priority"

// goFlags are those of a user, and the caller's, such as -race.
var goFlags = "GOFLAGS=-modcacherw " + os.Getenv("GOFLAGS")

// version is one that nobody has, so what has it was written by release/release. It is
// later than all others that a copy has the tags of.
var version = fmt.Sprintf("v1.9999.%d", os.Getpid())

func TestUsersCanUseWhatWouldBeReleased(t *testing.T) {
	r := rehearse(t)
	t.Run("release/release", r.writesTheVersion)
	t.Run("refused", r.refuses)
	t.Run("go mod tidy", r.tidy)
	t.Run("go get", r.get)
	t.Run("go install", r.install)
}

// rehearsal is a copy of the tree that is released on this machine alone.
type rehearsal struct {
	tree      string
	published string   // the lines that would publish it
	modules   []string // the folders of the published ones, "." for the root
	env       []string // of a user who gets our modules from a file proxy
}

func rehearse(t *testing.T) *rehearsal {
	t.Helper()
	r := &rehearsal{tree: filepath.Join(t.TempDir(), "tree")}
	// The tree with all edits of tracked files, in a repository of its own, with a version in
	// preparation.
	run(t, "..", []string{"COPY=" + r.tree}, "bash", "-euc", `
		unset $(git rev-parse --local-env-vars) # a hook says with them which repository it is about
		git clone --quiet -c user.name=rehearsal -c user.email=rehearsal@localhost \
			-c commit.gpgSign=false -c tag.gpgSign=false -c core.hooksPath=/dev/null . "$COPY"
		git diff --binary HEAD | git -C "$COPY" apply --allow-empty --index
		cd "$COPY"
		sed -i '0,/^## /s//## `+version+` - unreleased\n\n- A rehearsal.\n\n&/' CHANGELOG.md
		git commit --quiet --all --message 'What is rehearsed'`)
	r.published = run(t, r.tree, nil, "bash", "-euc", "unset $(git rev-parse --local-env-vars); release/release -n "+version)
	r.modules = strings.Fields(run(t, r.tree, nil, "release/modules"))

	// The go command makes the published form of the modules out of the tags.
	packed := t.TempDir()
	download := []string{"mod", "download"}
	for _, module := range r.modules {
		download = append(download, path.Join(root, module)+"@"+version)
	}
	run(t, packed, []string{
		"GOWORK=off", goFlags, "GOMODCACHE=" + packed, "GOPROXY=direct", "GONOSUMDB=" + root,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + r.tree + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + root,
	}, "go", download...)

	// A user has this machine's module cache, so that what others have written is downloaded
	// and compiled once.
	cache, proxies, _ := strings.Cut(run(t, packed, nil, "go", "env", "GOMODCACHE", "GOPROXY"), "\n")
	t.Cleanup(func() {
		for _, module := range r.modules {
			name := path.Join(root, module)
			_ = os.RemoveAll(filepath.Join(cache, name+"@"+version))
			files, _ := filepath.Glob(filepath.Join(cache, "cache/download", name, "@v", version+".*"))
			for _, file := range append(files, filepath.Join(cache, "cache/download", name, "@v/list")) {
				_ = os.Remove(file)
			}
		}
	})
	r.env = []string{
		"GOWORK=off", goFlags, "GONOSUMDB=" + root, "GONOPROXY=none",
		"GOPROXY=file://" + packed + "/cache/download," + proxies,
	}
	return r
}

// tidy fails where go mod tidy would change a go.mod or go.sum, but for the sums of our own
// modules: these are known only when everything is committed, and go.work does without.
func (r *rehearsal) tidy(t *testing.T) {
	for _, file := range strings.Fields(run(t, r.tree, nil, "git", "ls-files", "*go.mod")) {
		run(t, filepath.Join(r.tree, filepath.Dir(file)), r.env, "go", "mod", "tidy")
	}
	run(t, r.tree, nil, "git", "add", "--intent-to-add", ".")
	diff := run(t, r.tree, nil, "git", "diff", "--unified=0", "--", "*go.mod", "*go.sum")
	ours := regexp.MustCompile(`(?m)^\+` + root + `(/\S+)? ` + version + `.*$`)
	if regexp.MustCompile(`(?m)^[-+]\w`).MatchString(ours.ReplaceAllString(diff, "")) {
		t.Error(diff)
	}
}

// get begins a program that imports every package. All that they import and embed must be there;
// whether they compile is shown by what is run, and by the tests of the tree.
func (r *rehearsal) get(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, r.env, "go", "mod", "init", "example.com/service")
	var imports strings.Builder
	for _, module := range r.modules {
		found := r.packages(t, module)
		if len(found) == 0 {
			continue
		}
		name := path.Join(root, module)
		run(t, dir, r.env, "go", append([]string{"get"}, found...)...)
		if got := run(t, dir, r.env, "go", "list", "-m", "-f", "{{.Version}}", name); got != version {
			t.Errorf("go get %s gets %s", name, got)
		}
		for _, library := range found {
			fmt.Fprintf(&imports, "\t_ %q\n", library)
		}
	}
	write(t, filepath.Join(dir, "main.go"), "package main\n\nimport (\n"+imports.String()+")\n\nfunc main() {}\n")
	run(t, dir, r.env, "go", "list", "-deps", ".")
}

// install is what an operator does, without compiling what the tree's tests compile.
func (r *rehearsal) install(t *testing.T) {
	run(t, t.TempDir(), r.env, "go", "install", "-n", root+"/cmd/priorityctl@latest")
}

// packages lists the packages of a module that users can import.
func (r *rehearsal) packages(t *testing.T, module string) []string {
	t.Helper()
	const format = `{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}`
	all := strings.Fields(run(t, filepath.Join(r.tree, module), nil, "go", "list", "-f", format, "./..."))
	return slices.DeleteFunc(all, func(name string) bool { return strings.Contains(name+"/", "/internal/") })
}

// run runs a program in a folder and returns what it prints, without the space around it.
func run(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
