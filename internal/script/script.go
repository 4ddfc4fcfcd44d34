// Package script runs Lua scripts on Redis through a go-redis client: each at
// most once, and in time, whatever the client's own settings are.
package script

import (
	"crypto/sha1"
	"encoding/hex"
)

// Script is a Lua text and what is known of its replies.
type Script struct {
	Text string

	integers int // in its reply, at least
	perID    int // and so many more for each of a call's IDs

	text, digest []byte // as go-redis writes them
}

// New returns a script whose replies have at least so many integers, and perID
// more for each of a call's IDs.
func New(text string, integers, perID int) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{
		Text: text, integers: integers, perID: perID,
		text: []byte(text), digest: []byte(hex.EncodeToString(sum[:])),
	}
}

// Call is one call of one script.
type Call struct {
	Script  *Script
	Key     string    // KEYS[1]; its braces name the customer, and so the cluster's slot
	Others  [3]string // KEYS[2] to KEYS[4], of the same customer; empty: none
	Numbers []int64   // ARGV
	IDs     []string  // ARGV after the numbers, documents
	Costs   []int64   // ARGV after each of the IDs; nil: none

	Repeatable bool // running it twice is as good as once
	ReadOnly   bool // writes nothing, so that nothing is unknown when its reply is lost
	Ordered    bool // of a RunEach, it keeps its place even if a node does not know the script yet
}

// Outcome is what became of a call.
type Outcome int

// The outcomes of a call without a reply.
const (
	NotCounted     Outcome = iota // definitely not run, or it changed nothing
	Unknown                       // it may have been run
	CorruptCount                  // the key of the count holds something else
	CorruptPending                // the key of pending documents does
)

// Failure is why a call has no reply.
type Failure struct {
	Outcome Outcome
	Err     error
}
