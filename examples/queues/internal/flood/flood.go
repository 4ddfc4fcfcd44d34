// Package flood is the story of the examples: one customer floods the queue, two
// small ones come after it, and only then a worker starts.
package flood

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docpriority/priority"
)

// Document is one customer's, numbered from 1.
type Document struct {
	Customer string
	Number   int
}

// String is the document as it goes through the queue, such as "bakery 2".
func (d Document) String() string {
	return fmt.Sprint(d.Customer, " ", d.Number)
}

// Documents returns all documents in the order in which they arrive.
func Documents() []Document {
	return slices.Concat(of("archive", 60), of("bakery", 3), of("clinic", 6))
}

func of(customer string, n int) []Document {
	documents := make([]Document, n)
	for i := range documents {
		documents[i] = Document{customer, i + 1}
	}
	return documents
}

// Collect consumes n documents and returns them in the order in which they came.
func Collect(ctx context.Context, n int, consume func(ctx context.Context, process func(document string) error) error) ([]string, error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	var served []string
	err := consume(ctx, func(document string) error {
		served = append(served, document)
		if len(served) == n {
			done()
		}
		return nil
	})
	if err == nil && len(served) < n {
		err = ctx.Err() // an interrupt
	}
	return served, err
}

// Report prints the order in which one worker got the documents, with levels and
// without. The call says what a level is called in the queue.
func Report(out io.Writer, queue string, call func(priority.Level) string, with, without []string) {
	fmt.Fprintf(out, "archive uploads 60 documents, then bakery 3 and clinic 6; then a worker starts.\n\n")
	last := priority.DefaultPolicy().Last()
	var calls []string
	for level := priority.First; level <= last; level++ {
		calls = append(calls, call(level))
	}
	if first, final := calls[0], calls[last-1]; len(first)+len(final) > 20 {
		fmt.Fprintf(out, "In %s level 1 is %s, and level %d is %s.\n\n", queue, first, last, final)
	} else {
		fmt.Fprintf(out, "In %s the levels 1 to %d are the priorities %s.\n\n", queue, last, strings.Join(calls, " "))
	}

	left, right := runs(with), runs(without)
	fmt.Fprintln(out, "served as no.  with the module        served as no.  without it")
	for i := range max(len(left), len(right)) {
		line := row(left, i)
		if i < len(right) {
			line = fmt.Sprintf("%-38s%s", line, row(right, i))
		}
		fmt.Fprintln(out, line)
	}
}

// run is consecutive documents of one customer, served one after the other.
type run struct {
	customer    string
	first, last int // documents
	from, to    int // places in the order
}

func runs(served []string) []run {
	var found []run
	for i, document := range served {
		var d Document
		_, _ = fmt.Sscan(document, &d.Customer, &d.Number) // as String wrote it
		if n := len(found); n > 0 && found[n-1].customer == d.Customer && found[n-1].last+1 == d.Number {
			found[n-1].last, found[n-1].to = d.Number, i+1
			continue
		}
		found = append(found, run{d.Customer, d.Number, d.Number, i + 1, i + 1})
	}
	return found
}

func row(all []run, i int) string {
	if i >= len(all) {
		return ""
	}
	r := all[i]
	places, documents := fmt.Sprintf("%8d", r.from), fmt.Sprint(r.first)
	if r.from < r.to {
		places, documents = fmt.Sprintf("%2d to %2d", r.from, r.to), fmt.Sprintf("%d to %d", r.first, r.last)
	}
	return fmt.Sprintf("%13s  %s %s", places, r.customer, documents)
}
