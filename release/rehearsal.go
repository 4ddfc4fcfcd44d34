package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// rehearsal is a copy of a tree that is released on this machine alone, and what a
// user needs who is to meet nothing else.
type rehearsal struct {
	dir     string // where all of it is
	copied  tree
	version string
	modules []module
	user    user

	libraries, commands []goPackage
}

// release releases a copy of the tree: the version in preparation or, where that is
// tagged already, the next one.
func release(ctx context.Context, t tree) (*rehearsal, error) {
	if err := t.rules(ctx); err != nil {
		return nil, err
	}
	believed, err := t.believed(ctx)
	if err != nil {
		return nil, err
	}
	if len(believed) > 0 {
		fmt.Printf("  no tag is here: %s counts as tagged, as %s has it\n", strings.Join(believed, ", "), changelog)
	}
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	r := &rehearsal{dir: dir}
	if err := r.release(ctx, t); err != nil {
		r.remove()
		return nil, err
	}
	return r, nil
}

func (r *rehearsal) release(ctx context.Context, t tree) (err error) {
	if r.copied, err = t.copyTo(ctx, filepath.Join(r.dir, "tree")); err != nil {
		return err
	}
	if r.version, err = r.copied.beginNext(ctx); err != nil {
		return err
	}
	if err := r.copied.setVersion(ctx, r.version, time.Now()); err != nil {
		return err
	}
	if err := r.copied.commit(ctx); err != nil {
		return err
	}
	if _, err := r.copied.setTags(ctx, r.version); err != nil {
		return err
	}
	if r.modules, err = r.copied.modules(ctx); err != nil {
		return err
	}
	cache := filepath.Join(r.dir, "packed")
	if _, err := pack(ctx, r.copied, cache, r.version, r.modules[:len(published)]...); err != nil {
		return err
	}
	if r.libraries, r.commands, err = packages(ctx, r.copied, r.modules); err != nil {
		return err
	}
	r.user, err = userOf(ctx, r.dir, cache, r.modules[0].Go.Version)
	return err
}

// beginNext returns the version in preparation. Where there is none, it begins one.
func (t tree) beginNext(ctx context.Context) (string, error) {
	first, err := t.entry()
	if err != nil {
		return "", err
	}
	tagged, err := t.hasTag(ctx, first.version)
	if err != nil || !tagged {
		return first.version, err
	}
	var patch int
	minor := semver.MajorMinor(first.version)
	if _, err := fmt.Sscanf(strings.TrimPrefix(first.version, minor+"."), "%d", &patch); err != nil {
		return "", err
	}
	next := fmt.Sprintf("%s.%d", minor, patch+1)
	text, err := t.read(changelog)
	if err != nil {
		return "", err
	}
	begun := fmt.Sprintf("## %s - unreleased\n\n- A rehearsal.\n\n%s", next, first.heading)
	return next, t.write(changelog, strings.Replace(text, first.heading, begun, 1))
}

// folder makes an empty one.
func (r *rehearsal) folder(name string) (string, error) {
	dir := filepath.Join(r.dir, name)
	return dir, os.Mkdir(dir, 0o755)
}

func (r *rehearsal) remove() { _ = os.RemoveAll(r.dir) }
