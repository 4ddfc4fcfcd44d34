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
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	pipeliner, err := client.AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	for err, want := range map[error]error{
		redis.ErrAutoPipelineQueueFull:                       priority.ErrNotCounted,
		redis.ErrAutoPipelineTimeout:                         priority.ErrNotCounted,
		&net.OpError{Op: "dial", Err: errors.New("refused")}: priority.ErrNotCounted,
		errors.New("the connection broke"):                   priority.ErrOutcomeUnknown,
	} {
		store, failed := priority.NewRedisStore(refusing{pipeliner, err}, &priority.RedisOptions{Timeout: -1})
		if failed != nil {
			t.Fatal(failed)
		}
		if _, got := store.Next(t.Context(), "acme"); !errors.Is(got, want) || !errors.Is(got, err) {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
	if _, err := priority.NewRedisStore((*redis.AutoPipeliner)(nil), nil); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("a nil AutoPipeliner: %v", err)
	}
}
