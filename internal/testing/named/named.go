// Package named makes documents for tests.
package named

import "github.com/docpriority/priority"

// Documents returns documents of these ids, without costs.
func Documents(ids ...string) []priority.Document {
	documents := make([]priority.Document, len(ids))
	for i, id := range ids {
		documents[i].ID = id
	}
	return documents
}
