package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const changelog = "CHANGELOG.md"

// entry is the first section of the changelog: the version that is in preparation
// or, until the next one gets a heading, the last that was released.
type entry struct {
	heading string
	version string
	dated   bool
	text    string
}

var heading = regexp.MustCompile(`^(v\d+\.\d+\.\d+) - (unreleased|\d{4}-\d{2}-\d{2})$`)

// entry reads the first section.
func (t tree) entry() (entry, error) {
	text, err := t.read(changelog)
	if err != nil {
		return entry{}, err
	}
	_, section, found := strings.Cut(text, "\n## ")
	if !found {
		return entry{}, errors.New(changelog + " has no heading of a version")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	line, section, _ := strings.Cut(section, "\n")
	match := heading.FindStringSubmatch(line)
	if match == nil {
		return entry{}, fmt.Errorf("%s: the first heading is %q, not such as \"## v0.2.0 - unreleased\"", changelog, "## "+line)
	}
	return entry{"## " + line, match[1], match[2] != "unreleased", strings.TrimSpace(section)}, nil
}

// released returns the versions of the sections below the first that have a day.
func (t tree) released() ([]string, error) {
	text, err := t.read(changelog)
	if err != nil {
		return nil, err
	}
	var versions []string
	_, below, _ := strings.Cut(text, "\n## ")
	_, below, _ = strings.Cut(below, "\n## ")
	for section := range strings.SplitSeq(below, "\n## ") {
		line, _, _ := strings.Cut(section, "\n")
		if match := heading.FindStringSubmatch(line); match != nil && match[2] != "unreleased" {
			versions = append(versions, match[1])
		}
	}
	return versions, nil
}

// fetched says which of these versions are not tagged here.
func (t tree) fetched(ctx context.Context) error {
	versions, err := t.released()
	if err != nil {
		return err
	}
	tagged, err := t.versions(ctx)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(versions, func(version string) bool { return slices.Contains(tagged, version) })
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s has %s, and this repository has no such tag: git fetch --tags", changelog, strings.Join(missing, ", "))
}

// setDate makes an unreleased section one of a day.
func (t tree) setDate(e entry, day time.Time) error {
	if e.dated {
		return nil
	}
	text, err := t.read(changelog)
	if err != nil {
		return err
	}
	dated := fmt.Sprintf("## %s - %s", e.version, day.UTC().Format(time.DateOnly))
	return t.write(changelog, strings.Replace(text, e.heading, dated, 1))
}
