package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// prepare writes a version into the tree. A second call changes nothing.
func prepare(ctx context.Context, t tree, version string, day time.Time) error {
	if semver.Canonical(version) != version || semver.Prerelease(version) != "" {
		return wrongCall{fmt.Errorf("%q is not a version such as v0.2.0", version)}
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return wrongCall{fmt.Errorf("%s: Go wants other module paths, that end with /%s, first", version, major)}
	}
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
	versions, err := t.versions(ctx)
	if err != nil {
		return err
	}
	if last := len(versions) - 1; last >= 0 && semver.Compare(version, versions[last]) <= 0 {
		return fmt.Errorf("%s is not above %s, the last tag", version, versions[last])
	}
	if err := t.setVersion(ctx, version, day); err != nil {
		if changes, failed := t.changes(context.WithoutCancel(ctx)); failed != nil || changes != "" {
			err = fmt.Errorf("%w\nThe tree is half prepared: git checkout . undoes that", err)
		}
		return err
	}
	if changes, err = t.changes(ctx); err != nil {
		return err
	}
	if changes == "" {
		fmt.Printf("The tree is %s already. Next: go run ./release tag\n", version)
	} else {
		fmt.Printf("The tree is %s now. Look at it, commit it, and then: go run ./release tag\n", version)
	}
	return nil
}

// setVersion writes a version into the files of the tree. Their hashes come last.
func (t tree) setVersion(ctx context.Context, version string, day time.Time) error {
	first, err := t.entry()
	if err != nil {
		return err
	}
	if first.version != version {
		return fmt.Errorf("%s begins with %s: say under \"## %s - unreleased\" what is new", changelog, first.version, version)
	}
	if !strings.Contains(first.text, "- ") {
		return fmt.Errorf("%s does not say what is new in %s", changelog, version)
	}
	modules, err := t.modules(ctx)
	if err != nil {
		return err
	}
	return errors.Join(
		t.setDate(first, day),
		t.setClientVersions(version),
		t.setRequired(modules, version),
		t.setSums(ctx, version),
	)
}
