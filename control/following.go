package control

import (
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// Following is what a process follows of the policies that operators have set.
type Following struct {
	// Version is the version of the policies, or of their withdrawal; 0: none were ever set.
	Version int64 `json:"version"`

	// Own reports whether the process follows its own options.
	Own bool `json:"own"`

	// Code says why the process does not follow the newest policies, and Detail says more about
	// it in words, if there is more to say. Both are empty while it follows them.
	Code   Code   `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Code is a reason why a process does not follow the newest policies.
type Code string

const (
	Lost        Code = "lost"        // Redis has none, or older ones than the process has read
	Corrupt     Code = "corrupt"     // the key holds something else
	Newer       Code = "newer"       // a later version of the module wrote them
	Invalid     Code = "invalid"     // they are wrong, or not for this process's queue
	Refused     Code = "refused"     // Redis refuses to tell them; Detail is its error's code
	Unreachable Code = "unreachable" // Redis does not answer
)

// Status is what a [Follower] knows.
type Status struct {
	Following

	// Policies are the policies that are followed; nil: the store's own options apply.
	Policies *priority.Policies

	// ReadAt is when Redis last answered, by this process's clock. Zero: it never has.
	ReadAt time.Time

	// Changed is when operators last changed something, by Redis's clock, as far as this process has
	// read: the policies, an override. Zero: they never did. A later reading of an older log leaves it.
	Changed time.Time

	// Err is the error behind Code, or nil. It wraps [ErrLost], [ErrCorrupt], [ErrNewer],
	// [priority.ErrInvalid], or the reason why Redis did not answer.
	Err error
}

// refusal is why policies that were read are not followed.
type refusal struct {
	code   Code
	detail string
	error
}

func (r refusal) Unwrap() error { return r.error }

// note sets Err, and what follows from it.
func (s *Status) note(err error) {
	s.Err, s.Code, s.Detail = err, "", ""
	var refused refusal
	var reply redis.Error
	switch {
	case err == nil:
	case errors.As(err, &refused):
		s.Code, s.Detail = refused.code, refused.detail
	case errors.As(err, &reply):
		s.Code = Refused
		s.Detail, _, _ = strings.Cut(reply.Error(), " ")
	default:
		s.Code = Unreachable
	}
}
