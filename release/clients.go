package main

import (
	"fmt"
	"regexp"
	"strings"
)

// place is where a client says its version. The expression has three groups, of which
// the second is the version without its v.
type place struct {
	file    string
	version *regexp.Regexp
}

var (
	inLock = regexp.MustCompile(`("name": "docpriority",\s+"version": ")([^"]*)(")`)
	places = []place{
		{"clients/python/pyproject.toml", regexp.MustCompile(`(?m)^(version = ")([^"]*)(")$`)},
		{"clients/python/src/docpriority/__init__.py", regexp.MustCompile(`(?m)^(__version__ = ")([^"]*)(")$`)},
		{"clients/nodejs/package.json", regexp.MustCompile(`(?m)^(  "version": ")([^"]*)(",?)$`)},
		{"clients/nodejs/package-lock.json", inLock},
		{"examples/nodejs/package-lock.json", inLock},
	}
)

// said is a version, and which file says it.
type said struct{ file, version string }

// clientVersions returns what the clients say.
func (t tree) clientVersions() ([]said, error) {
	var all []said
	for _, place := range places {
		text, err := t.read(place.file)
		if err != nil {
			return nil, err
		}
		matches := place.version.FindAllStringSubmatch(text, -1)
		if len(matches) == 0 {
			return nil, fmt.Errorf("%s has no version", place.file)
		}
		for _, match := range matches {
			all = append(all, said{place.file, "v" + match[2]})
		}
	}
	return all, nil
}

func (t tree) setClientVersions(version string) error {
	for _, place := range places {
		text, err := t.read(place.file)
		if err != nil {
			return err
		}
		text = place.version.ReplaceAllString(text, "${1}"+strings.TrimPrefix(version, "v")+"${3}")
		if err := t.write(place.file, text); err != nil {
			return err
		}
	}
	return nil
}
