package prioritynats

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A worker whose machine stood still has a message that others may have, too.
func TestAWorkerThatMayHaveLostItsDocumentLeavesItToOthers(t *testing.T) {
	t.Parallel()
	q := &Queue{store: new(memory.Store), options: Options{
		Limit: time.Minute, Backoff: []time.Duration{time.Second}, AckWait: 30 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}}
	lost := &delivery{heartbeat: errors.New("no connection")}
	q.Handle(t.Context(), lost, func(context.Context, jetstream.Msg) error {
		time.Sleep(3 * q.options.AckWait)
		return errors.New("fails")
	})
	if len(lost.said) > 0 {
		t.Errorf("it said %q of the message that another has now", lost.said)
	}
	q.options.AckWait = 10 * time.Second // a busy machine keeps to that
	kept := &delivery{}
	q.Handle(t.Context(), kept, func(context.Context, jetstream.Msg) error { return errors.New("fails") })
	if !slices.Equal(kept.said, []string{"nak"}) {
		t.Errorf("it said %q, and did not give its message back", kept.said)
	}
}

// A crash between the two has it said again.
func TestDoneIsSaidBeforeTheAcknowledgement(t *testing.T) {
	t.Parallel()
	message := &delivery{}
	store := &store{onDone: func(string) { message.said = append(message.said, "done") }}
	q := quiet(t, store)
	q.Handle(t.Context(), message, func(context.Context, jetstream.Msg) error { return nil })
	if want := []string{"done", "ack"}; !slices.Equal(message.said, want) {
		t.Errorf("said %q, want %q", message.said, want)
	}
}

// It does not count, but it is worked on and acknowledged as any other.
func TestAMessageWithoutACustomerIsHandledWithoutDone(t *testing.T) {
	t.Parallel()
	store := &store{onDone: func(document string) { t.Errorf("Done of %q", document) }}
	for _, headers := range []nats.Header{nil, {customerHeader: {"acme"}}, {customerHeader: {"%"}, documentHeader: {"one"}},
		{customerHeader: {strings.Repeat("x", 513)}, documentHeader: {"one"}}, {customerHeader: {"acme"}, documentHeader: {strings.Repeat("x", 513)}}} {
		message := &delivery{headers: headers, isForeign: true}
		quiet(t, store).Handle(t.Context(), message, func(context.Context, jetstream.Msg) error { return nil })
		if !slices.Equal(message.said, []string{"ack"}) {
			t.Errorf("%v: said %q", headers, message.said)
		}
	}
}

// A team's function may still do what it did before. Nobody waits for another answer then.
func TestAMessageThatProcessHasAcknowledgedIsDone(t *testing.T) {
	t.Parallel()
	done := ""
	message := &delivery{ack: jetstream.ErrMsgAlreadyAckd}
	quiet(t, &store{onDone: func(document string) { done = document }}).
		Handle(t.Context(), message, func(context.Context, jetstream.Msg) error { return nil })
	if done != "one" || len(message.said) != 1 {
		t.Errorf("done %q, said %q", done, message.said)
	}
}

func TestAMessageOfNoCustomerIsPublishedAsItIs(t *testing.T) {
	t.Parallel()
	js := new(stream)
	q, err := New(js, new(memory.Store), nil)
	if err != nil {
		t.Fatal(err)
	}
	message := &nats.Msg{Subject: "others"}
	if _, err := q.Publish(t.Context(), "", "one", message); err != nil || js.published != message || message.Header != nil {
		t.Errorf("published %+v, %v", js.published, err)
	}
	if _, err := q.Publish(t.Context(), "acme", "one", nil); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("no message: %v", err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	js, store := new(stream), new(memory.Store)
	for want, try := range map[string]func() (*Queue, error){
		"the JetStream is nil": func() (*Queue, error) { return New(nil, store, nil) },
		"the store is nil":     func() (*Queue, error) { return New(js, (*memory.Store)(nil), nil) },
		"Workers is below 0":   func() (*Queue, error) { return New(js, store, &Options{Workers: -1}) },
		"weight of level 1":    func() (*Queue, error) { return New(js, store, &Options{Weights: []int64{0}}) },
	} {
		if _, err := try(); !errors.Is(err, priority.ErrInvalidOption) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "prioritynats: ") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func quiet(t *testing.T, store priority.Store) *Queue {
	t.Helper()
	q, err := New(new(stream), store, &Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

type store struct {
	memory.Store
	onDone func(document string)
}

func (s *store) Done(_ context.Context, _, document string, _ time.Duration) error {
	s.onDone(document)
	return nil
}

type stream struct {
	jetstream.JetStream
	published *nats.Msg
}

func (s *stream) PublishMsg(_ context.Context, message *nats.Msg, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	s.published = message
	return new(jetstream.PubAck), nil
}

// delivery is a message without a server.
type delivery struct {
	jetstream.Msg
	headers   nats.Header
	isForeign bool
	heartbeat error
	ack       error
	said      []string
}

func (d *delivery) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{NumDelivered: 1}, nil
}

func (d *delivery) Headers() nats.Header {
	if d.isForeign {
		return d.headers
	}
	return nats.Header{customerHeader: {"acme"}, documentHeader: {"one"}}
}
func (d *delivery) Data() []byte      { return nil }
func (d *delivery) InProgress() error { return d.heartbeat }
func (d *delivery) NakWithDelay(_ time.Duration) error {
	d.said = append(d.said, "nak")
	return nil
}

func (d *delivery) DoubleAck(context.Context) error {
	d.said = append(d.said, "ack")
	return d.ack
}

// A store without a timeout of its own may never answer.
func TestAStoreThatHangsHoldsNoWorker(t *testing.T) {
	ends := false
	store := &hanging{see: func(ctx context.Context) { _, ends = ctx.Deadline() }}
	quiet(t, store).Handle(t.Context(), new(delivery), func(context.Context, jetstream.Msg) error { return nil })
	if !ends {
		t.Error("Done was called with a context that never ends")
	}
}

type hanging struct {
	memory.Store
	see func(context.Context)
}

func (h *hanging) Done(ctx context.Context, _, _ string, _ time.Duration) error {
	h.see(ctx)
	return nil
}
