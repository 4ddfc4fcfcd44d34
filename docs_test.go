package priority_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
)

// Links lead to a file, and to a heading that is in it, also by the repository's address:
// where PyPI and npm show a page, there are no files beside it.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	known := make(map[string][]string)
	for _, page := range everyPage(t) {
		for _, link := range links(t, page) {
			target, anchor, _ := strings.Cut(link, "#")
			file := page
			switch path, own := strings.CutPrefix(target, "https://github.com/docpriority/priority"); {
			case own && path == "":
				file = "README.md"
			case own && regexp.MustCompile(`^/(blob|tree)/main/`).MatchString(path):
				file = path[len("/blob/main/"):]
			case strings.Contains(target, ":"):
				continue // of another site
			case target != "" && (page == "clients/python/README.md" || page == "clients/nodejs/README.md"):
				t.Errorf("%s: %s leads nowhere on PyPI and npm", page, link)
				continue
			case target != "":
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s: %v", page, link, err)
				continue
			}
			if anchor == "" {
				continue
			}
			if known[file] == nil {
				known[file] = anchors(t, file)
			}
			if !slices.Contains(known[file], anchor) {
				t.Errorf("%s: %s: %s has no such heading", page, link, file)
			}
		}
	}
}

func TestTheDocumentsAreSpelledRight(t *testing.T) {
	t.Parallel()
	codespell := redistest.Find(t, "codespell", "codespell")
	if out, err := exec.Command(codespell, everyPage(t)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The Python and JavaScript of all pages is at least whole.
func TestTheSnippetsOfOtherLanguagesAreWhole(t *testing.T) {
	t.Parallel()
	python, node := redistest.Find(t, "python3", "python3"), redistest.Find(t, "node", "nodejs")
	const (
		ofPython = `import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name).read(), name)`
		ofJavaScript = `const { readFileSync } = require('node:fs');
const { SourceTextModule } = require('node:vm');
for (const identifier of process.argv.slice(1)) new SourceTextModule(readFileSync(identifier, 'utf8'), { identifier });`
	)
	for language, check := range map[string][]string{
		"python": {python, "-c", ofPython},
		"js":     {node, "--experimental-vm-modules", "-e", ofJavaScript},
	} {
		dir := t.TempDir()
		var files []string
		for _, page := range everyPage(t) {
			for _, block := range markdown.Read(t, page).Blocks(language) {
				file := filepath.Join(dir, fmt.Sprintf("%d-%s", len(files), strings.ReplaceAll(page, "/", "-")))
				if err := os.WriteFile(file, []byte(block), 0o644); err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
		}
		if out, err := exec.Command(check[0], append(check[1:], files...)...).CombinedOutput(); err != nil || len(files) < 3 {
			t.Errorf("%d blocks of %s: %v\n%s", len(files), language, err, out)
		}
	}
}

// everyPage returns all pages of the repository.
func everyPage(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && name != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(name, ".md") {
			found = append(found, filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// links returns where the links and pictures of a page lead.
func links(t *testing.T, page string) []string {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(markdown.Read(t, page).Prose(), -1) {
		found = append(found, match[1])
	}
	return found
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	seen := make(map[string]int)
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(markdown.Read(t, page).Prose(), -1) {
		heading := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(strings.ToLower(match[1]), "$1")
		anchor := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
		anchor = strings.ReplaceAll(anchor, " ", "-")
		if n := seen[anchor]; n > 0 {
			seen[fmt.Sprintf("%s-%d", anchor, n)]++
		}
		seen[anchor]++
	}
	return slices.Collect(maps.Keys(seen))
}
