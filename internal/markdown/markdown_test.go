package markdown

import (
	"slices"
	"testing"
)

func TestBlocksAreOfOneLanguage(t *testing.T) {
	const page = Page("# Title\n```go\na := 1\n```\n- item\n\n  ```sh\n  $ ls\n  ```\n```go\n```\n```\nplain\n```\nend ``` of it\n")
	for language, want := range map[string][]string{"go": {"a := 1\n", ""}, "sh": {"  $ ls\n"}, "": {"plain\n"}, "g": nil} {
		if got := page.Blocks(language); !slices.Equal(got, want) {
			t.Errorf("blocks of %q: %q, want %q", language, got, want)
		}
	}
	if got, want := page.Prose(), "# Title\n\n- item\n\n\n\n\nend ``` of it\n"; got != want {
		t.Errorf("prose %q, want %q", got, want)
	}
}

func TestAFenceKnowsItsPlace(t *testing.T) {
	const page = Page("# Title\n\nIn `a.go`:\n\n```go\na := 1\n```\n\n```\nplain\n```\n")
	want := []Fence{{"go", "a := 1\n", 6, "In `a.go`:"}, {"", "plain\n", 10, "```"}}
	if got := page.Fences(); !slices.Equal(got, want) {
		t.Errorf("fences %+v, want %+v", got, want)
	}
}
