// Package named makes documents and calls for tests.
package named

import (
	"context"

	"github.com/docpriority/priority"
)

// Documents returns documents of these ids, without costs.
func Documents(ids ...string) []priority.Document {
	documents := make([]priority.Document, len(ids))
	for i, id := range ids {
		documents[i].ID = id
	}
	return documents
}

// Calls is all calls that can fail, by name. A NextN is of three documents.
func Calls(ctx context.Context, store priority.Store, customer, document string) map[string]func() error {
	return map[string]func() error{
		"Next":     func() error { _, err := store.Next(ctx, customer); return err },
		"NextN":    func() error { _, err := store.NextN(ctx, customer, 3); return err },
		"NextEach": func() error { _, err := store.NextEach(ctx, []string{customer}); return err },
		"Submit":   func() error { _, err := store.Submit(ctx, customer, priority.Document{ID: document}); return err },
		"SubmitN":  func() error { _, err := store.SubmitN(ctx, customer, Documents(document)); return err },
		"Done":     func() error { _, err := store.Done(ctx, customer, document, 0); return err },
		"DoneN":    func() error { _, err := store.DoneN(ctx, customer, []string{document}, 0); return err },
		"Peek":     func() error { _, err := store.Peek(ctx, customer); return err },
		"Reset":    func() error { return store.Reset(ctx, customer) },
	}
}
