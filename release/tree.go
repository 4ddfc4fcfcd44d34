package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// tree is a work tree of this repository.
type tree struct{ dir string }

// open returns the tree whose root is dir.
func open(ctx context.Context, dir string) (tree, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return tree{}, err
	}
	t := tree{absolute}
	prefix, err := t.git(ctx, "rev-parse", "--show-prefix")
	if err != nil {
		return tree{}, err
	}
	if prefix != "" {
		return tree{}, wrongCall{errors.New("this is not the root of the repository")}
	}
	return t, nil
}

// forgetRepository drops the variables with which a hook, or git rebase --exec, says
// which repository git is in: they would stand for every copy of the tree too.
func forgetRepository(ctx context.Context) error {
	names, err := output(ctx, "", nil, "git", "rev-parse", "--local-env-vars")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(names) {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	return nil
}

// module is a go.mod of the tree.
type module struct {
	folder string // from the root, with slashes; "." is the root
	*modfile.File
}

func (m module) path() string { return m.Module.Mod.Path }

// goMod is the file's name from the root.
func (m module) goMod() string { return path.Join(m.folder, "go.mod") }

func (m module) goSum() string { return path.Join(m.folder, "go.sum") }

// tag is what git calls a version of the module.
func (m module) tag(version string) string { return path.Join(m.folder, version) }

// rootPath is the root module's name, with which those of the others begin.
const rootPath = "github.com/docpriority/priority"

// ours says whether a module is one of this repository.
func ours(name string) bool { return name == rootPath || strings.HasPrefix(name, rootPath+"/") }

// published are the folders of the modules that users import or install. Each
// stands after those that it requires.
var published = []string{".", "page", "priorityotel", "cmd/priorityctl"}

func isPublished(folder string) bool { return slices.Contains(published, folder) }

// modules returns the published modules in their order, and then the others.
func (t tree) modules(ctx context.Context) ([]module, error) {
	files, err := t.files(ctx)
	if err != nil {
		return nil, err
	}
	folders := slices.Clone(published)
	for _, file := range files {
		if folder := path.Dir(file); path.Base(file) == "go.mod" && !isPublished(folder) {
			folders = append(folders, folder)
		}
	}
	var modules []module
	for _, folder := range folders {
		name := path.Join(folder, "go.mod")
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, []byte(text), nil)
		if err != nil {
			return nil, err
		}
		modules = append(modules, module{folder, file})
	}
	return modules, nil
}

// files returns what a commit of everything would hold.
func (t tree) files(ctx context.Context) ([]string, error) {
	listed, err := t.git(ctx, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.TrimSuffix(listed, "\x00"), "\x00")
	names = slices.DeleteFunc(names, func(name string) bool {
		if strings.HasSuffix(name, "/") {
			return true // another repository, or another work tree of this one
		}
		_, err := os.Lstat(t.at(name))
		return errors.Is(err, fs.ErrNotExist) // deleted, and still in the index
	})
	slices.Sort(names)
	return slices.Compact(names), nil
}

// changes says what git status says; nothing of a clean tree.
func (t tree) changes(ctx context.Context) (string, error) {
	return t.git(ctx, "status", "--porcelain")
}

// versions returns those that are tagged, the last one last.
func (t tree) versions(ctx context.Context) ([]string, error) {
	tags, err := t.git(ctx, "tag", "--list", "v*")
	if err != nil {
		return nil, err
	}
	versions := slices.DeleteFunc(strings.Fields(tags), func(tag string) bool { return semver.Canonical(tag) != tag })
	semver.Sort(versions)
	return versions, nil
}

func (t tree) hasTag(ctx context.Context, tag string) (bool, error) {
	found, err := t.git(ctx, "tag", "--list", tag)
	return found == tag, err
}

func (t tree) git(ctx context.Context, arguments ...string) (string, error) {
	return output(ctx, t.dir, nil, "git", arguments...)
}

// at is where a file of the tree is.
func (t tree) at(name string) string { return filepath.Join(t.dir, filepath.FromSlash(name)) }

func (t tree) read(name string) (string, error) {
	text, err := os.ReadFile(t.at(name))
	return string(text), err
}

// readIfThere returns "" where there is no such file.
func (t tree) readIfThere(name string) (string, error) {
	text, err := t.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return text, err
}

// write replaces a file's text. A file that has it already is not touched.
func (t tree) write(name, text string) error {
	if old, err := t.readIfThere(name); err != nil || old == text {
		return err
	}
	return os.WriteFile(t.at(name), []byte(text), 0o644)
}

// output runs a program in a folder and returns what it prints, without the space
// around it. The variables are added to those of this process.
func output(ctx context.Context, dir string, variables []string, program string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), variables...)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		said := strings.TrimSpace(stdout.String() + stderr.String())
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(arguments, " "), err, said)
	}
	return strings.TrimSpace(stdout.String()), nil
}
