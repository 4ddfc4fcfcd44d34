package page_test

import (
	"os"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/markdown"
)

// What docs/page.md shows is the example, which is compiled.
func TestTheDocsShowTheExample(t *testing.T) {
	t.Parallel()
	blocks := markdown.Read(t, "../docs/page.md").Blocks("go")
	example := string(must(os.ReadFile("example_test.go"))(t))
	if len(blocks) != 1 {
		t.Fatalf("the page has %d Go blocks", len(blocks))
	}
	if indented := "\t" + strings.ReplaceAll(strings.TrimSpace(blocks[0]), "\n", "\n\t"); !strings.Contains(example, indented) {
		t.Errorf("the example is not\n%s", blocks[0])
	}
}
