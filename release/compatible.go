package main

import (
	"context"
	"fmt"
	"os"
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
		fmt.Println("  there is no version before")
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
		export := filepath.Join(r.dir, "export")
		if _, err := output(ctx, filepath.Join(old, filepath.FromSlash(module.folder)), nil, "go", "run", apidiff, "-m", "-w", export, module.path()); err != nil {
			return err
		}
		said, err := output(ctx, r.copied.at(module.folder), nil, "go", "run", apidiff, "-m", export, module.path())
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
