// Package servertest holds an example's queue, on a real server, to the order in
// which documents have to come out.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/flood"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/queue"
)

// Start starts a server for the test and returns its URL.
func Start(tb testing.TB, start func(context.Context) (*server.Server, error)) string {
	tb.Helper()
	s, err := start(tb.Context())
	SkipIfMissing(tb, err)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s.URL
}

// SkipIfMissing skips the test, or fails it if CI is set, where the error is that
// a server is not installed.
func SkipIfMissing(tb testing.TB, err error) {
	tb.Helper()
	if missing := (*server.MissingError)(nil); errors.As(err, &missing) {
		redistest.Skip(tb, err.Error())
	}
}

// Policies are numbers of levels to test a queue with: one, two, fewer and more
// than a queue has priorities.
var Policies = []priority.Level{1, 2, 3, 9, 20}

// Document is a document with a level that is given and not decided.
type Document struct {
	Level priority.Level
	Name  string // of the level's documents
}

func (d Document) String() string {
	return fmt.Sprintf("%s of level %d", d.Name, d.Level)
}

// Documents returns two documents of each level in the worst order: the last level's
// come first.
func Documents(last priority.Level) []Document {
	var documents []Document
	for _, name := range []string{"first", "second"} {
		for level := last; level >= 1; level-- {
			documents = append(documents, Document{level, name})
		}
	}
	return documents
}

// CheckOrder fails the test unless the documents came out by level and, within a
// level, as they went in. Levels that share one of the queue's classes count as one.
func CheckOrder(tb testing.TB, last, classes priority.Level, served []string) {
	tb.Helper()
	want := Documents(last)
	slices.SortStableFunc(want, func(a, b Document) int {
		return int(queue.Class(a.Level, last, classes) - queue.Class(b.Level, last, classes))
	})
	if !slices.EqualFunc(served, want, func(got string, want Document) bool { return got == want.String() }) {
		tb.Errorf("a policy of %d levels: served\n%q\nwant\n%v", last, served, want)
	}
	late := slices.Index(served, Document{1, "second"}.String())
	if early := slices.Index(served, Document{last, "first"}.String()); last > 1 && late > early {
		tb.Errorf("a policy of %d levels: level 1 is served as late as no. %d, the last level as early as no. %d", last, late+1, early+1)
	}
}

// CheckOvertaking fails the test unless an urgent document that arrives while
// another is worked on is served before those that have waited for longer. It is
// not where a consumer has fetched them ahead.
func CheckOvertaking(
	tb testing.TB,
	publish func(ctx context.Context, level priority.Level, document string) error,
	consume func(ctx context.Context, process func(document string) error) error,
) {
	tb.Helper()
	for _, document := range []string{"first", "waiting", "last"} {
		if err := publish(tb.Context(), 9, document); err != nil {
			tb.Fatal(err)
		}
	}
	served, err := flood.Collect(tb.Context(), 4, func(ctx context.Context, process func(string) error) error {
		return consume(ctx, func(document string) error {
			if document == "first" {
				if err := publish(ctx, 1, "urgent"); err != nil {
					tb.Error(err)
				}
			}
			return process(document)
		})
	})
	if want := []string{"first", "urgent", "waiting", "last"}; err != nil || !slices.Equal(served, want) {
		tb.Errorf("served %q, error %v; want %q", served, err, want)
	}
}
