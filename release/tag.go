package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tag gives the commit the tags of the version that prepare has made of it.
func tag(ctx context.Context, t tree) error {
	if err := t.isPrepared(ctx); err != nil {
		return err
	}
	first, err := t.entry()
	if err != nil {
		return err
	}
	tags, err := t.setTags(ctx, first.version)
	if err != nil {
		return err
	}
	fmt.Printf("Tagged. Now push the commit with all tags at once:\n\ngit push --atomic origin HEAD %s\n", strings.Join(tags, " "))
	return nil
}

// isPrepared says whether the commit is what prepare makes.
func (t tree) isPrepared(ctx context.Context) error {
	changes, err := t.changes(ctx)
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("commit these first, or undo them:\n%s", changes)
	}
	if err := t.fetched(ctx); err != nil {
		return err
	}
	if err := t.rules(ctx); err != nil {
		return err
	}
	first, err := t.entry()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release-tag-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	copied, err := t.copyTo(ctx, filepath.Join(work, "tree"))
	if err != nil {
		return err
	}
	if err := copied.setVersion(ctx, first.version, time.Now()); err != nil {
		return err
	}
	if changes, err = copied.changes(ctx); err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("this is not what \"prepare %s\" makes; it would change:\n%s", first.version, changes)
	}
	return nil
}

// setTags tags the commit for every published module, in their order, or not at all
// where one of the tags is there.
func (t tree) setTags(ctx context.Context, version string) ([]string, error) {
	modules, err := t.modules(ctx)
	if err != nil {
		return nil, err
	}
	var tags []string
	var there []error
	for _, module := range modules[:len(published)] {
		name := module.tag(version)
		found, err := t.hasTag(ctx, name)
		if err != nil {
			return nil, err
		}
		if found {
			there = append(there, fmt.Errorf("the tag %s is there already", name))
		}
		tags = append(tags, name)
	}
	if len(there) > 0 {
		return nil, errors.Join(there...)
	}
	for _, name := range tags {
		if _, err := t.git(ctx, "tag", "--annotate", "--message", name, name); err != nil {
			return nil, err
		}
	}
	return tags, nil
}
