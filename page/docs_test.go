package page_test

import (
	"os"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/markdown"
)

// What docs/control.md shows of the page is the example, which is compiled.
func TestTheDocsShowTheExample(t *testing.T) {
	t.Parallel()
	blocks := markdown.Read(t, "../docs/control.md").Blocks("go")
	example := string(must(os.ReadFile("example_test.go"))(t))
	if len(blocks) != 2 { // the first is the root's to run
		t.Fatalf("docs/control.md has %d Go blocks", len(blocks))
	}
	if indented := "\t" + strings.ReplaceAll(strings.TrimSpace(blocks[1]), "\n", "\n\t"); !strings.Contains(example, indented) {
		t.Errorf("the example is not\n%s", blocks[1])
	}
}
