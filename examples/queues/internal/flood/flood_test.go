package flood

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority"
)

func TestReport(t *testing.T) {
	var out strings.Builder
	Report(&out, "a queue", func(level priority.Level) string { return fmt.Sprint(10 * level) },
		[]string{"archive 1", "bakery 1", "bakery 2", "archive 2", "archive 4"},
		[]string{"archive 1", "archive 2"})
	want := `archive uploads 60 documents, then bakery 3 and clinic 6; then a worker starts.

In a queue the levels 1 to 9 are the priorities 10 20 30 40 50 60 70 80 90.

served as no.  with the module        served as no.  without it
            1  archive 1                    1 to  2  archive 1 to 2
      2 to  3  bakery 1 to 2
            4  archive 2
            5  archive 4
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestCollectEndsWithTheLastDocument(t *testing.T) {
	served, err := Collect(t.Context(), 2, func(ctx context.Context, process func(string) error) error {
		for _, document := range []string{"a", "b", "c"} {
			if ctx.Err() != nil {
				break
			}
			_ = process(document)
		}
		return nil
	})
	if err != nil || !slices.Equal(served, []string{"a", "b"}) {
		t.Errorf("served %q, error %v", served, err)
	}
}

func TestCollectSaysThatItWasInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	_, err := Collect(ctx, 1, func(context.Context, func(string) error) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
