package main

import (
	"context"
	"encoding"
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// refusing is an AutoPipeliner that asks for a command's bytes, to know their number, and
// then ends it with an error.
type refusing struct {
	*redis.AutoPipeliner
	err error
}

func (r refusing) Process(_ context.Context, cmd redis.Cmder) error {
	_, _ = cmd.Args()[1].(encoding.BinaryMarshaler).MarshalBinary()
	cmd.SetErr(r.err)
	return r.err
}

// The root module supports a go-redis that has no AutoPipeliner, so it knows its type and
// its errors by what they look like. This module has a newer one.
func TestAnAutoPipelinerIsRecognized(t *testing.T) {
	for err, want := range map[error]error{
		redis.ErrAutoPipelineQueueFull:                       priority.ErrNotCounted,
		redis.ErrAutoPipelineTimeout:                         priority.ErrNotCounted,
		&net.OpError{Op: "dial", Err: errors.New("refused")}: priority.ErrNotCounted,
		errors.New("the connection broke"):                   priority.ErrOutcomeUnknown,
	} {
		client := redis.NewClient(&redis.Options{
			DialerRetries: 1, // of the store's further tries, which are pipelines
			Dialer:        func(context.Context, string, string) (net.Conn, error) { return nil, err },
		})
		t.Cleanup(func() { _ = client.Close() })
		pipeliner, failed := client.AutoPipeline()
		if failed != nil {
			t.Fatal(failed)
		}
		store, failed := priority.NewRedisStore(refusing{pipeliner, err}, &priority.RedisOptions{Timeout: -1})
		if failed != nil {
			t.Fatal(failed)
		}
		if _, got := store.Next(t.Context(), "acme"); !errors.Is(got, want) || !errors.Is(got, err) {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
	if _, err := priority.NewRedisStore((*redis.AutoPipeliner)(nil), nil); !errors.Is(err, priority.ErrInvalid) {
		t.Errorf("a nil AutoPipeliner: %v", err)
	}
}
