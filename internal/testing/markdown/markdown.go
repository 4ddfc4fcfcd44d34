// Package markdown reads the repository's pages for the tests that run what they show.
package markdown

import (
	"os"
	"regexp"
	"strings"
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

// Fence is a fenced block of a page.
type Fence struct {
	Language string
	Text     string
	Line     int    // where its text begins
	Before   string // the last line of prose before it
}

var fence = regexp.MustCompile("(?ms)^ *```([^\n]*)\n(.*?)^ *```$")

// Fences returns the fenced blocks of all languages.
func (p Page) Fences() []Fence {
	var found []Fence
	text := string(p)
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		before := strings.TrimSpace(text[:at[0]])
		found = append(found, Fence{
			Language: text[at[2]:at[3]],
			Text:     text[at[4]:at[5]],
			Line:     1 + strings.Count(text[:at[4]], "\n"),
			Before:   before[strings.LastIndex(before, "\n")+1:],
		})
	}
	return found
}

// Blocks returns the texts of the fenced blocks of one language.
func (p Page) Blocks(language string) []string {
	var found []string
	for _, fence := range p.Fences() {
		if fence.Language == language {
			found = append(found, fence.Text)
		}
	}
	return found
}

// Rights returns the keys and commands of a user, from the line ACL SETUSER of docs/redis.md.
func (p Page) Rights(tb testing.TB, user string) (keys, commands []string) {
	tb.Helper()
	line := regexp.MustCompile(`(?m)^ACL SETUSER ` + user + ` reset on #SHA256 (.*)$`).FindStringSubmatch(string(p))
	if line == nil {
		tb.Fatalf("the page has no line for the user %s", user)
	}
	for word := range strings.FieldsSeq(line[1]) {
		switch word[0] {
		case '~':
			keys = append(keys, word)
		case '+':
			commands = append(commands, word)
		default:
			tb.Fatalf("the user %s has the right %q", user, word)
		}
	}
	return keys, commands
}

// Prose returns the page without its blocks.
func (p Page) Prose() string { return fence.ReplaceAllString(string(p), "") }
