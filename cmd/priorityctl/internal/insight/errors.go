package insight

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Unreachable reports whether an error means that Redis could not be asked.
func Unreachable(err error) bool {
	var network net.Error // a timeout is one, too
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if errors.As(err, &network) || errors.As(err, &certificate) || errors.As(err, &record) {
		return true
	}
	for _, lost := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return redis.IsAuthError(err)
}

// Forbidden reports whether Redis refused because a right is missing. Within a script, its
// reply has no code for that, only words, which Redis 7.2 has changed.
func Forbidden(err error) bool {
	return redis.IsPermissionError(err) || redis.HasErrorPrefix(err, "ACL failure in script") ||
		err != nil && strings.Contains(err.Error(), "The user executing the script can't")
}

// cause returns the part of a store's error that comes from Redis or the connection.
func cause(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		if all := several.Unwrap(); len(all) > 1 {
			return all[len(all)-1]
		}
	}
	return err
}

// Hidden hides the Inspector's Secrets in an error, as a reply of Redis may quote a login. It
// also says where to find the rights that a user needs.
func (i *Inspector) Hidden(err error) error {
	if err == nil {
		return nil
	}
	_, moved := redis.IsMovedError(err)
	if _, one := i.Client.(*redis.Client); one && moved {
		return i.errNode()
	}
	text := err.Error()
	for _, secret := range i.Secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	switch {
	case Forbidden(err):
		text += "; docs/redis.md, \"Rights\", has the line that gives an operator's user all rights"
	case redis.IsOOMError(err):
		text += "; Redis is full: raise maxmemory"
	}
	return otherWords{err, text}
}

const hidden = "***"

// otherWords is an error with another text.
type otherWords struct {
	error
	text string
}

func (e otherWords) Error() string { return e.text }

func (e otherWords) Unwrap() error { return e.error }

// OneLine returns an error's text in one line, without the names of our packages, passwords in
// URLs, and control characters.
func OneLine(err error) string {
	text := userOfURL.ReplaceAllString(fmt.Sprint(err), "://"+hidden+"@")
	for _, name := range []string{"control: ", "fleet: ", "priority: "} {
		text = strings.TrimPrefix(text, name)
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

// userOfURL matches the user and password of a URL, not a user alone.
var userOfURL = regexp.MustCompile(`://[^\s/]*:\S*@`)
