package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// linked are the licences of what a user's program may contain: all that they ask for
// is to be named. Tests are not in a user's program, and may use testsOnly too.
var (
	linked    = []string{"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC"}
	testsOnly = append(slices.Clone(linked), "MPL-2.0")
)

// licences says which licences the dependencies of the published modules have, and
// fails where one is not among those above, or cannot be told.
func (r *rehearsal) licences(ctx context.Context) error {
	texts, err := assets.DefaultClassifier()
	if err != nil {
		return err
	}
	inPrograms, err := r.dependencies(ctx)
	if err != nil {
		return err
	}
	inTests, err := r.dependencies(ctx, "-test")
	if err != nil {
		return err
	}
	var wrong []error
	count := make(map[string]int)
	for _, dependency := range slices.Sorted(maps.Keys(inTests)) {
		allowed := testsOnly
		if _, ok := inPrograms[dependency]; ok {
			allowed = linked
		}
		found, err := licencesIn(texts, inTests[dependency])
		if err != nil {
			return err
		}
		if len(found) == 0 {
			wrong = append(wrong, fmt.Errorf("%s: no licence that is known", dependency))
		}
		for _, licence := range found {
			count[licence]++
			if !slices.Contains(allowed, licence) {
				wrong = append(wrong, fmt.Errorf("%s has the licence %s, which is not one of %s", dependency, licence, strings.Join(allowed, ", ")))
			}
		}
	}
	for _, licence := range slices.Sorted(maps.Keys(count)) {
		fmt.Printf("  %d of %d modules: %s\n", count[licence], len(inTests), licence)
	}
	return errors.Join(wrong...)
}

// dependencies returns the modules of others that the published ones need, and where
// they are.
func (r *rehearsal) dependencies(ctx context.Context, flags ...string) (map[string]string, error) {
	found := make(map[string]string)
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, module := range r.modules[:len(published)] {
			arguments := append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}} {{.Dir}}{{end}}"}, flags...)
			said, err := output(ctx, r.copied.at(module.folder), []string{"GOOS=" + system}, "go", append(arguments, "./...")...)
			if err != nil {
				return nil, err
			}
			for line := range strings.Lines(said) {
				if fields := strings.Fields(line); len(fields) == 3 && !ours(fields[0]) {
					found[fields[0]+" "+fields[1]] = fields[2]
				}
			}
		}
	}
	return found, nil
}

var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)`)

// licencesIn returns those of a module's folder.
func licencesIn(texts *classifier.Classifier, dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		for _, match := range texts.Match(text).Matches {
			if match.MatchType == "License" {
				found = append(found, match.Name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
