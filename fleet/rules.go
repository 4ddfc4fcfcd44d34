package fleet

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// rulesOf returns what a report says about the rules that are followed.
func rulesOf(status control.Status) Rules {
	return Rules{Version: status.Version, Own: status.Rules == nil, Error: reason(status.Err)}
}

// reason says why rules are not followed.
func reason(err error) string {
	var reply redis.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, control.ErrLost):
		_, versions, _ := strings.Cut(err.Error(), control.ErrLost.Error()+": ")
		return plainText("Redis lost data: "+versions, maxErrorBytes)
	case errors.Is(err, control.ErrNewer):
		return "a later version of the library wrote the rules"
	case errors.Is(err, control.ErrCorrupt):
		return "the rules in Redis cannot be read"
	case errors.Is(err, priority.ErrInvalid):
		text := err.Error()
		if _, why, ok := strings.Cut(text, priority.ErrInvalid.Error()+" policy: "); ok {
			text = why
		}
		return plainText(text, maxErrorBytes)
	case errors.As(err, &reply):
		code, _, _ := strings.Cut(reply.Error(), " ")
		return plainText("Redis refuses to show the rules: "+code, maxErrorBytes)
	}
	return "Redis does not answer"
}
