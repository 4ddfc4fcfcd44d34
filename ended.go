package priority

import (
	"context"
	"time"
)

// Ended is a document that was pending until its Done.
type Ended struct {
	Document string
	Sojourn  time.Duration // from Submit to Done, in whole milliseconds
	Level    Level         // as Submit returned it, an operator's override included
}

// WithEnded returns a context whose Done and DoneN report each document that they end,
// before they return. Documents that were not pending are not reported, nor those whose
// Done was sent again after a lost reply. A report that ctx already has is called too;
// a nil report removes it.
func WithEnded(ctx context.Context, report func(Ended)) context.Context {
	outer, _ := ctx.Value(endedKey{}).(func(Ended))
	if outer != nil && report != nil {
		inner := report
		report = func(e Ended) {
			inner(e)
			outer(e)
		}
	}
	return context.WithValue(ctx, endedKey{}, report)
}

// ReportEnded reports a document to the function of [WithEnded], if ctx has one.
// Implementations of Store call it.
func ReportEnded(ctx context.Context, e Ended) {
	if report, _ := ctx.Value(endedKey{}).(func(Ended)); report != nil {
		report(e)
	}
}

type endedKey struct{}
