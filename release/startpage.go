package main

import (
	"fmt"
	"regexp"
	"strings"
)

// startPage is read in ten minutes. Each of its sections works alone, from an empty
// folder and an empty Redis.
const startPage = "docs/start.md"

// section is what a reader does in one language.
type section struct {
	title string
	parts []part
}

// part is one block: a file to write, or commands to run.
type part struct {
	line int    // of the page
	file string // "" for commands
	text string
	// console: the text has commands after "$ ", and what each prints.
	console bool
}

var fileName = regexp.MustCompile("`([^`]+)`:$")

// sections reads a page. A block is the content of a file where the text before it
// ends with the file's name: `main.go`:
func sections(page string) ([]section, error) {
	var all []section
	var before string // the last line of text
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if title, ok := strings.CutPrefix(line, "## "); ok {
			all = append(all, section{title: title})
			before = ""
			continue
		}
		language, ok := strings.CutPrefix(line, "```")
		if !ok {
			if line != "" {
				before = line
			}
			continue
		}
		end := i + 1
		for end < len(lines) && lines[end] != "```" {
			end++
		}
		if end == len(lines) {
			return nil, fmt.Errorf("line %d: the block has no end", i+1)
		}
		one := part{line: i + 1, text: strings.Join(lines[i+1:end], "\n") + "\n", console: language == "console"}
		if name := fileName.FindStringSubmatch(before); name != nil {
			one.file = name[1]
		} else if language != "sh" && language != "console" {
			return nil, fmt.Errorf("line %d: a block of %q is no command, and no line such as \"`main.go`:\" is before it", i+1, language)
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("line %d: the block is in no section", i+1)
		}
		all[len(all)-1].parts = append(all[len(all)-1].parts, one)
		before, i = "", end
	}
	return all, nil
}

// exchange is a command of a console, and what the page says that it prints.
type exchange struct{ command, want string }

// consoleOf returns the commands of a block. A line that ends with a backslash goes on.
func consoleOf(text string) []exchange {
	var all []exchange
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			if len(all) > 0 {
				all[len(all)-1].want += lines[i] + "\n"
			}
			continue
		}
		for strings.HasSuffix(command, `\`) && i+1 < len(lines) {
			i++
			command += "\n" + lines[i]
		}
		all = append(all, exchange{command: command})
	}
	return all
}

// prints says whether an output is what a page says. A line "…" of the page stands
// for any lines.
func prints(got, want string) bool {
	var pattern strings.Builder
	pattern.WriteString("^")
	for line := range strings.Lines(strings.TrimSpace(want) + "\n") {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:.*\n)*`)
		} else {
			pattern.WriteString(regexp.QuoteMeta(strings.TrimRight(line, " \n")) + "\n")
		}
	}
	var trimmed strings.Builder
	for line := range strings.Lines(strings.TrimSpace(got) + "\n") {
		trimmed.WriteString(strings.TrimRight(line, " \r\n") + "\n")
	}
	pattern.WriteString("$")
	return regexp.MustCompile(pattern.String()).MatchString(trimmed.String())
}
