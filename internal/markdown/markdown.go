// Package markdown reads the repository's pages for the tests that run what they show.
package markdown

import (
	"os"
	"regexp"
	"testing"
)

// Page is the text of a page.
type Page string

// Read reads a page.
func Read(tb testing.TB, file string) Page {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return Page(text)
}

var fence = regexp.MustCompile("(?ms)^ *```([^\n]*)\n(.*?)^ *```$")

// Blocks returns the fenced blocks of one language.
func (p Page) Blocks(language string) []string {
	var found []string
	for _, block := range fence.FindAllStringSubmatch(string(p), -1) {
		if block[1] == language {
			found = append(found, block[2])
		}
	}
	return found
}

// Prose returns the page without its blocks.
func (p Page) Prose() string { return fence.ReplaceAllString(string(p), "") }
