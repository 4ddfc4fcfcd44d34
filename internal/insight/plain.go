package insight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// plain returns an error's text in an operator's words: the texts of Go's libraries, and
// the prefixes of packages, are for programmers.
func plain(err error) string {
	text := err.Error()
	translate(err, func(said, words string) {
		if at := strings.LastIndex(text, said); at >= 0 && said != "" {
			text = text[:at] + words + text[at+len(said):]
		}
	})
	return once(ofNetwork.ReplaceAllString(text, "$1"))
}

// once leaves out the address of an error behind a URL that has it.
func once(text string) string {
	before, after, ok := strings.Cut(text, "://")
	address, why, _ := strings.Cut(after, ": ")
	host, _, _ := strings.Cut(address, "/")
	if short, twice := strings.CutPrefix(why, host+": "); ok && twice {
		return before + "://" + address + ": " + short
	}
	return text
}

// ofNetwork matches the beginning of Go's connection errors in the module's
// messages.
var ofNetwork = regexp.MustCompile(`\b(?:dial|read|write) (?:tcp|unix) (\S+: )`)

// translate calls replace for each error of a tree that has words for operators.
func translate(err error, replace func(said, words string)) {
	if err == nil {
		return
	}
	if words, ok := inWords(err); ok {
		replace(err.Error(), words)
		return
	}
	if reply, ok := strings.CutPrefix(err.Error(), "redis: can't parse "); ok {
		replace(err.Error(), "what answers is not Redis: "+reply)
		return
	}
	for _, prefix := range packagePrefixes {
		if words, ok := strings.CutPrefix(err.Error(), prefix); ok {
			replace(err.Error(), words)
		}
	}
	switch outer := err.(type) {
	case interface{ Unwrap() error }:
		translate(outer.Unwrap(), replace)
	case interface{ Unwrap() []error }:
		for _, inner := range outer.Unwrap() {
			translate(inner, replace)
		}
	}
}

var packagePrefixes = []string{"priority: ", "control: ", "fleet: ", "redis: ", "json: ", "time: ", "tls: ", "x509: "}

const (
	noAnswer = "no answer in time"
	closed   = "the connection was closed"
	full     = "Redis is full (OOM): raise maxmemory"
)

// fixedWords are for errors that are always the same.
var fixedWords = []struct {
	err   error
	words string
}{
	{context.DeadlineExceeded, noAnswer},
	{os.ErrDeadlineExceeded, noAnswer},
	{context.Canceled, "interrupted"},
	{io.EOF, closed},
	{syscall.EPIPE, closed},
	{net.ErrClosed, closed},
	{redis.ErrClosed, closed},
	{redis.ErrPoolTimeout, "no connection was free in time"},
	{io.ErrUnexpectedEOF, "it ends too early"},
}

// inWords returns what an operator reads for an error of Go's libraries.
func inWords(err error) (words string, ok bool) {
	for _, fixed := range fixedWords {
		if err == fixed.err {
			return fixed.words, true
		}
	}
	switch err := err.(type) {
	case *net.OpError:
		return wordsOfNetwork(err), true
	case *net.DNSError:
		if err.IsNotFound {
			return "there is no host " + Quoted(err.Name), true
		}
		return fmt.Sprintf("the host %s cannot be looked up", Quoted(err.Name)), true
	case *net.AddrError:
		return err.Addr + ": " + err.Err, true
	case *fs.PathError:
		return err.Path + ": " + plain(err.Err), true
	case *os.SyscallError:
		return plain(err.Err), true
	case *json.UnmarshalTypeError:
		return wordsOfJSON(err), true
	case *json.SyntaxError:
		return fmt.Sprintf("it is not JSON, from byte %d on", err.Offset), true
	case *time.ParseError:
		return fmt.Sprintf("%s is not a time such as %s", Quoted(strings.Trim(err.Value, `"`)), time.UnixMilli(0).UTC().Format(time.RFC3339)), true
	case *strconv.NumError:
		return fmt.Sprintf("%.40q is not a number", err.Num), true
	case base64.CorruptInputError:
		return "it is not Base64", true
	case *tls.CertificateVerificationError:
		return "the certificate cannot be verified: " + plain(err.Err), true
	case tls.RecordHeaderError:
		return "the server does not speak TLS", true
	case x509.UnknownAuthorityError:
		return "its authority is not trusted", true
	case redis.Error:
		return full, outOfMemory(err)
	case interface{ Timeout() bool }:
		_, wraps := err.(interface{ Unwrap() error })
		return noAnswer, err.Timeout() && !wraps
	}
	return "", false
}

// wordsOfNetwork names the other side, and why.
func wordsOfNetwork(err *net.OpError) string {
	why := plain(err.Err)
	if err.Op == "remote error" {
		return "the other side refuses: " + why
	}
	if err.Addr == nil || strings.HasPrefix(why, err.Addr.String()) {
		return why
	}
	return err.Addr.String() + ": " + why
}

// wordsOfJSON says which value has the wrong type.
func wordsOfJSON(err *json.UnmarshalTypeError) string {
	found, wanted := err.Value, "something else"
	if number, ok := strings.CutPrefix(found, "number "); ok {
		found = number
	} else {
		found = map[string]string{"string": "a text", "array": "a list", "object": "an object", "bool": "true or false", "number": "a number"}[found]
	}
	switch kind := err.Type.Kind(); {
	case kind >= reflect.Int && kind <= reflect.Uint64:
		wanted = "a whole number"
		if _, bad := strconv.ParseInt(found, 10, 64); errors.Is(bad, strconv.ErrRange) {
			wanted = "a smaller number"
		}
	case kind == reflect.Float32 || kind == reflect.Float64:
		wanted = "a number"
	case kind == reflect.String:
		wanted = "a text"
	case kind == reflect.Bool:
		wanted = "true or false"
	case kind == reflect.Slice:
		wanted = "a list"
	case kind == reflect.Struct || kind == reflect.Map:
		wanted = "an object"
	}
	field := err.Field[strings.LastIndexByte(err.Field, '.')+1:]
	if field == "" {
		return fmt.Sprintf("it is %s, not %s", found, wanted)
	}
	return fmt.Sprintf("%s is %s, not %s", field, found, wanted)
}
