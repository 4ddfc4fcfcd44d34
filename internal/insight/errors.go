package insight

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

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
		priority.ErrInvalid, priority.ErrCorrupt, context.Canceled,
		control.ErrConflict, control.ErrNotFound, control.ErrTooMany, control.ErrCorrupt, control.ErrNewer, control.ErrNotInForce, control.ErrForgottenInPart,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// Forbidden reports whether Redis refused because a right is missing. Within a
// script, its reply has no code for that.
func Forbidden(err error) bool {
	return redis.IsPermissionError(err) || err != nil &&
		(strings.Contains(err.Error(), "The user executing the script can't") || strings.Contains(err.Error(), "ACL failure in script"))
}

// outOfMemory reports whether Redis refused a write because it is full.
func outOfMemory(err error) bool {
	return err != nil && strings.Contains(err.Error(), "OOM command not allowed")
}

// Hidden hides the Inspector's Secrets in the parts of an error that come from Redis
// or the connection: a reply may quote a login. It wraps the error. Nil stays nil.
func (i *Inspector) Hidden(err error) error {
	if err == nil {
		return nil
	}
	return hiddenError{err, i.Secrets}
}

const hidden = "***"

type hiddenError struct {
	error
	secrets []string
}

func (e hiddenError) Error() string {
	text := e.error.Error()
	for _, part := range heard(e.error) {
		text = strings.ReplaceAll(text, part, withoutWords(part, e.secrets))
	}
	return text
}

// heard returns the parts of an error that come from others: Redis, or a client's
// dialer. The module's own parts have no password, but a customer's name may
// contain the same word.
func heard(err error) (all []string) {
	if _, ok := err.(redis.Error); ok {
		return []string{err.Error()}
	}
	switch outer := err.(type) {
	case interface{ Unwrap() error }:
		if inner := outer.Unwrap(); inner != nil {
			return heard(inner)
		}
		return nil
	case interface{ Unwrap() []error }:
		for _, inner := range outer.Unwrap() {
			all = append(all, heard(inner)...)
		}
		return all
	case syscall.Errno:
		return nil
	}
	text := err.Error()
	if err == context.Canceled || err == context.DeadlineExceeded || strings.HasPrefix(text, "priority: ") || strings.HasPrefix(text, "control: ") {
		return nil
	}
	return []string{text}
}

// withoutWords replaces whole words, not parts of words.
func withoutWords(text string, words []string) string {
	for _, word := range words {
		for start := 0; word != ""; {
			at := strings.Index(text[start:], word)
			if at < 0 {
				break
			}
			at += start
			start = at + len(word)
			before, _ := utf8.DecodeLastRuneInString(text[:at])
			after, _ := utf8.DecodeRuneInString(text[start:])
			if !inWord(before) && !inWord(after) {
				text = text[:at] + hidden + text[start:]
				start = at + len(hidden)
			}
		}
	}
	return text
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func (e hiddenError) Unwrap() error { return e.error }

// OneLine returns an error's text in one line and in an operator's words, without
// passwords in URLs, and without control characters.
func OneLine(err error) string {
	text := userOfURL.ReplaceAllString(plain(err), "://"+hidden+"@")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

// userOfURL matches the user and password of a URL, not a user alone.
var userOfURL = regexp.MustCompile(`://[^\s/]*:\S*@`)
