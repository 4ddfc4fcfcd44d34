package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e"

// compatible says what has changed in the interface of the Go modules since the last
// tag. A user's program has to compile with the next version too, but for v0: there
// a new minor version may ask for changes.
func (r *rehearsal) compatible(ctx context.Context) error {
	last, err := r.before(ctx)
	if err != nil {
		return err
	}
	if last == "" {
		fmt.Println("  NOT COMPARED: no earlier version is tagged here; where there is one: git fetch --tags")
		return nil
	}
	old := filepath.Join(r.dir, "last")
	if _, err := r.copied.git(ctx, "worktree", "add", "--quiet", "--detach", old, last); err != nil {
		return err
	}
	breaking := ""
	for _, module := range r.modules[:len(published)] {
		if _, err := os.Stat(filepath.Join(old, filepath.FromSlash(module.goMod()))); err != nil {
			continue // it is new
		}
		changed, err := r.hasChanged(ctx, module, last)
		if err != nil {
			return err
		}
		if !changed || !r.hasLibrary(module) {
			continue
		}
		var variables []string
		if module.folder == "." {
			variables = []string{"GOWORK=off"} // the names of all others begin with its own
		}
		export := filepath.Join(r.dir, "export")
		if _, err := output(ctx, filepath.Join(old, filepath.FromSlash(module.folder)), variables, "go", "run", apidiff, "-m", "-w", export, module.path()); err != nil {
			return err
		}
		said, err := output(ctx, r.copied.at(module.folder), variables, "go", "run", apidiff, "-m", export, module.path())
		if err != nil {
			return err
		}
		if said == "" {
			continue
		}
		fmt.Printf("  %s since %s:\n    %s\n", module.path(), last, strings.ReplaceAll(said, "\n", "\n    "))
		if strings.Contains(said, "Incompatible changes:") {
			breaking = module.path()
		}
	}
	mayBreak := semver.Major(r.version) == "v0" && semver.MajorMinor(r.version) != semver.MajorMinor(last)
	if breaking != "" && !mayBreak {
		return fmt.Errorf("programs with %s %s do not compile with %s: that takes a version with more than a new patch, and from v1 on a new major", breaking, last, r.version)
	}
	return nil
}

// hasChanged says whether there is other Go in a module than in a version, tests aside.
func (r *rehearsal) hasChanged(ctx context.Context, m module, since string) (bool, error) {
	arguments := []string{"diff", "--name-only", since, "--", path.Join(m.folder, "*.go"), ":(exclude)*_test.go"}
	for _, other := range r.modules {
		if other.folder != "." && other.folder != m.folder {
			arguments = append(arguments, ":(exclude)"+other.folder)
		}
	}
	said, err := r.copied.git(ctx, arguments...)
	return said != "", err
}

// before is the last version below the one that is rehearsed, or "".
func (r *rehearsal) before(ctx context.Context) (string, error) {
	versions, err := r.copied.versions(ctx)
	last := ""
	for _, version := range versions {
		if semver.Compare(version, r.version) < 0 {
			last = version
		}
	}
	return last, err
}
