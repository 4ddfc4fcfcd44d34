package page_test

import (
	"os"
	"strings"
	"testing"
)

// What docs/page.md shows is the example, which is compiled.
func TestTheDocsShowTheExample(t *testing.T) {
	t.Parallel()
	docs := string(must(os.ReadFile("../docs/page.md"))(t))
	example := string(must(os.ReadFile("example_test.go"))(t))
	_, snippet, _ := strings.Cut(docs, "```go\n")
	snippet, _, found := strings.Cut(snippet, "```")
	if indented := "\t" + strings.ReplaceAll(strings.TrimSpace(snippet), "\n", "\n\t"); !found || !strings.Contains(example, indented) {
		t.Errorf("the example is not\n%s", snippet)
	}
}
