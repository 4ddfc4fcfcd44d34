package main

import (
	"errors"
	"fmt"
	"regexp"
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
