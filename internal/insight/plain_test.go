package insight_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// refused is an address that refuses connections.
var refused = &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: syscall.ECONNREFUSED}

func TestAnErrorIsSaidInAnOperatorsWords(t *testing.T) {
	t.Parallel()
	var number struct {
		Levels []int `json:"levels"`
	}
	for want, err := range map[string]error{
		"acme: outcome unknown: no answer in time":            fmt.Errorf("acme: %w: %w", priority.ErrOutcomeUnknown, context.DeadlineExceeded),
		"not counted: 127.0.0.1:1: connection refused":        fmt.Errorf("%w: %w", priority.ErrNotCounted, refused),
		"corrupt: it is not JSON, from byte 1 on":             fmt.Errorf("%w: %w", control.ErrCorrupt, json.Unmarshal([]byte("x"), &number)),
		"levels is a text, not a list":                        json.Unmarshal([]byte(`{"levels":"x"}`), &number),
		"the connection was closed":                           io.EOF,
		"not counted: Redis is full (OOM): raise maxmemory":   fmt.Errorf("%w: %w", priority.ErrNotCounted, reply("OOM command not allowed when used memory > 'maxmemory'. script: 07595b, on @user_script:89.")),
		`what answers is not Redis: "HTTP/1.1 400"`:           errors.New(`redis: can't parse "HTTP/1.1 400"`),
		`invalid read_timeout duration: invalid duration "x"`: fmt.Errorf("redis: invalid read_timeout duration: %w", errors.New(`time: invalid duration "x"`)),
		"its authority is not trusted":                        x509.UnknownAuthorityError{},
		"no answer in time: 127.0.0.1:1: no answer yet":       fmt.Errorf("%w: dial tcp 127.0.0.1:1: no answer yet", context.DeadlineExceeded),
		"interrupted the connection was closed":               errors.Join(context.Canceled, syscall.EPIPE),
		"EOF: there is no override of priority: EOF":          errors.New("EOF: there is no override of priority: EOF"), // a customer's name
		"WRONGTYPE Operation against a key holding the json":  errors.New("WRONGTYPE Operation against a key holding the json"),
	} {
		if got := insight.OneLine(err); got != want {
			t.Errorf("got %q, not %q", got, want)
		}
	}
}
