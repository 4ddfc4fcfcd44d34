// Package script runs Lua scripts on Redis through a go-redis client: each at
// most once, and in time, whatever the client's own settings are.
package script

import (
	"crypto/sha1"
	"encoding/hex"
)

// Script is a Lua text.
type Script struct {
	Text string

	text, digest []byte // as go-redis writes them
}

// New returns a script.
func New(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{Text: text, text: []byte(text), digest: []byte(hex.EncodeToString(sum[:]))}
}

// SHA1 returns the digest by which Redis knows the script.
func (s *Script) SHA1() string { return string(s.digest) }

// Call is one call of one script.
type Call struct {
	Script    *Script
	Key       string   // KEYS[1]; what is in its braces places it in a cluster
	OtherKeys []string // KEYS[2] and on, with the same in their braces
	Override  bool     // the last of them is an override's, which need not exist
	Args      []any    // ARGV: strings, integers or bytes

	// Integers is the least number of integers that the script replies; 0: it replies values of
	// any kind.
	Integers int

	// Timed says that the script takes a deadline behind Args, in milliseconds of Redis's time, 0: none,
	// and replies Redis's time behind all else. What Redis would run after the call has ended, it
	// refuses.
	Timed bool

	Repeatable bool // running it twice is as good as once
	ReadOnly   bool // writes nothing, so that nothing is unknown when its reply is lost
	Ordered    bool // in a RunEach it keeps its place even if a node does not know the script yet
}

// Reply is what a script replied: Integers, or Values if the call has no number of integers.
type Reply struct {
	Integers []int64
	Values   []any

	// Override is what the override's key holds, where the script could not read it: Redis takes
	// no two keys of a slot that moves if one of them does not exist.
	Override string
}

// Outcome is what became of a call.
type Outcome int

// The outcomes of a call without a reply.
const (
	NotCounted Outcome = iota // definitely not run, or it changed nothing
	Unknown                   // it may have been run
	Corrupt                   // a key holds something else
	Newer                     // a later version of the module wrote a key
)

// Failure is why a call has no reply.
type Failure struct {
	Outcome Outcome
	Err     error
}

// Key returns the key that a failure is about: the first one, unless Redis's answer names the
// kind of another.
func (f *Failure) Key(call *Call) string {
	for _, key := range call.OtherKeys {
		if f.Outcome == Corrupt && isNamed(f.Err, key) {
			return key
		}
	}
	return call.Key
}
