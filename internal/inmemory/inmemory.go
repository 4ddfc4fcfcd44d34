// Package inmemory has what package fallback needs of package memory and users do not.
package inmemory

import "github.com/docpriority/priority"

// Store is a *memory.Store.
type Store interface {
	priority.Store
	Clear()
}

// Like returns a store with no counts and with the policies of another one, whatever they
// are at the time, and with its lease. Package memory sets it.
var Like func(store priority.Store) Store
