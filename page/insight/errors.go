package insight

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/redis/go-redis/v9"
)

// Unreachable reports whether an error means that Redis could not be asked.
func Unreachable(err error) bool {
	var reply redis.Error
	if err == nil || errors.As(err, &reply) {
		return false
	}
	for _, other := range []error{
		priority.ErrInvalid, priority.ErrCorruptCount, context.Canceled, ErrNoTrial,
		control.ErrConflict, control.ErrNotFound, control.ErrTooMany, control.ErrCorruptDocument, control.ErrNewerDocument,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// Forbidden reports whether Redis refused for want of rights. Within a script, its
// reply has no code of its own for that.
func Forbidden(err error) bool {
	return redis.IsPermissionError(err) || err != nil &&
		(strings.Contains(err.Error(), "The user executing the script can't") || strings.Contains(err.Error(), "ACL failure in script"))
}

// Hidden returns the error without the Inspector's Secrets in its text. It wraps
// the error. Nil stays nil.
func (i *Inspector) Hidden(err error) error {
	if err == nil {
		return nil
	}
	return hiddenError{err, i.Secrets}
}

type hiddenError struct {
	error
	secrets []string
}

func (e hiddenError) Error() string {
	text := e.error.Error()
	for _, secret := range e.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

func (e hiddenError) Unwrap() error { return e.error }

// OneLine returns an error's text in one line, without what may be a password in a
// URL, and without what a terminal would obey.
func OneLine(err error) string {
	text := userOfURL.ReplaceAllString(err.Error(), "://***@")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

var userOfURL = regexp.MustCompile(`://\S*@`)
