package priorityrabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// recorder notes what is done with a document, in order.
type recorder struct {
	memory.Store
	steps    []string
	sent     amqp.Publishing
	sendErr  error
	isClosed bool
}

func (r *recorder) Submit(context.Context, string, priority.Document) (priority.Decision, error) {
	r.steps = append(r.steps, "submit")
	return priority.Decision{Level: 2}, nil
}

func (r *recorder) Done(_ context.Context, customer, document string, _ time.Duration) (priority.Ended, error) {
	r.steps = append(r.steps, "done "+customer+" "+document)
	return priority.Ended{}, nil
}

func (r *recorder) Ack(uint64, bool) error        { r.steps = append(r.steps, "ack"); return nil }
func (r *recorder) Nack(uint64, bool, bool) error { r.steps = append(r.steps, "nack"); return nil }
func (r *recorder) Reject(uint64, bool) error     { r.steps = append(r.steps, "reject"); return nil }
func (r *recorder) IsClosed() bool                { return r.isClosed }

// queue returns a queue whose messages go nowhere.
func (r *recorder) queue(t *testing.T) *Queue {
	t.Helper()
	q, err := newQueue("documents", r, &Options{Backoff: []time.Duration{time.Second, time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	q.publish = func(_ context.Context, exchange, key string, message amqp.Publishing, submit submit) (err error) {
		if submit != nil {
			message.Priority, err = submit()
		}
		r.steps = append(r.steps, strings.TrimSpace(fmt.Sprint("to ", exchange, " ", key)))
		r.sent = message
		return errors.Join(err, r.sendErr)
	}
	return q
}

func (r *recorder) delivery(headers amqp.Table) amqp.Delivery {
	if headers == nil {
		headers = amqp.Table{}
	}
	headers[headerCustomer], headers[headerDocument] = "acme", "invoice"
	return amqp.Delivery{Acknowledger: r, Headers: headers}
}

var errFails = errors.New("fails")

func TestDoneComesBeforeTheAcknowledgement(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for what, c := range map[string]struct {
		ctx         context.Context
		headers     amqp.Table
		redelivered bool
		err         error
		want        string
	}{
		"served":                  {want: "work, done acme invoice, ack"},
		"fails":                   {err: errFails, want: "work, to  documents.retry.1s, ack"},
		"fails again":             {err: errFails, headers: amqp.Table{headerFailures: int64(1)}, want: "work, to  documents.retry.1m0s, ack"},
		"fails for the last time": {err: errFails, headers: amqp.Table{headerFailures: int64(2)}, want: "work, to  documents.dead, done acme invoice, ack"},
		"interrupted":             {ctx: ended, err: errFails, headers: amqp.Table{headerFailures: int64(2)}, want: "work, to  documents.retry.1s, ack"},
		"lost with its worker":    {redelivered: true, want: "to  documents.retry.1s, ack"},
		"lost once more":          {redelivered: true, headers: amqp.Table{headerLosses: int64(maxLosses - 1)}, want: "to  documents.dead, done acme invoice, ack"},
	} {
		t.Run(what, func(t *testing.T) {
			r := new(recorder)
			delivery := r.delivery(c.headers)
			delivery.Redelivered = c.redelivered
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			err := r.queue(t).Handle(ctx, delivery, func(context.Context, amqp.Delivery) error {
				r.steps = append(r.steps, "work")
				return c.err
			})
			if got := strings.Join(r.steps, ", "); got != c.want || err != nil {
				t.Errorf("%s, error %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestWhatCannotBePutAsideIsNotAcknowledged(t *testing.T) {
	r := &recorder{sendErr: amqp.ErrClosed}
	err := r.queue(t).Handle(t.Context(), r.delivery(nil), func(context.Context, amqp.Delivery) error { return errFails })
	if !errors.Is(err, amqp.ErrClosed) || slices.Contains(r.steps, "ack") {
		t.Errorf("%q, error %v", r.steps, err)
	}
}

// Another worker gets the document.
func TestADocumentWhoseChannelIsLostIsNotDone(t *testing.T) {
	r := &recorder{isClosed: true}
	err := r.queue(t).Handle(t.Context(), r.delivery(nil), func(context.Context, amqp.Delivery) error { return nil })
	if !errors.Is(err, amqp.ErrClosed) || len(r.steps) > 0 {
		t.Errorf("%q, error %v", r.steps, err)
	}
}

func TestAMessageOfNoCustomerIsNeitherSubmittedNorDone(t *testing.T) {
	r := new(recorder)
	q := r.queue(t)
	message := amqp.Publishing{Priority: 3, Headers: amqp.Table{"tenant": "x"}}
	if err := q.Publish(t.Context(), "uploads", "pdf", message, Document{ID: "ignored"}); err != nil {
		t.Error(err)
	}
	if r.sent.Priority != 3 || len(r.sent.Headers) != 1 || r.sent.DeliveryMode != 0 {
		t.Errorf("sent %+v", r.sent)
	}
	delivery := amqp.Delivery{Acknowledger: r, Headers: r.sent.Headers}
	for _, err := range []error{nil, errFails} {
		if err := q.Handle(t.Context(), delivery, func(context.Context, amqp.Delivery) error { return err }); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"to uploads pdf", "ack", "to  documents.retry.1s", "ack"}; !slices.Equal(r.steps, want) {
		t.Errorf("%q, want %q", r.steps, want)
	}
}

func TestPublishAddsToTheTeamsMessage(t *testing.T) {
	r := new(recorder)
	q := r.queue(t)
	headers := amqp.Table{"tenant": "x"}
	message := amqp.Publishing{Headers: headers, ContentType: "application/pdf", MessageId: "m", Body: []byte("body")}
	ids := make(map[string]bool)
	for range 2 {
		if err := q.Publish(t.Context(), "uploads", "pdf", message, Document{Customer: "acme"}); err != nil {
			t.Fatal(err)
		}
		document := DocumentOf(amqp.Delivery{Headers: r.sent.Headers})
		if ids[document.ID] = true; document.Customer != "acme" || document.ID == "" {
			t.Errorf("the document is %+v", document)
		}
	}
	if len(headers) != 1 || len(ids) != 2 {
		t.Errorf("headers %v, ids %v", headers, ids)
	}
	if r.sent.Priority != 7 || r.sent.DeliveryMode != amqp.Persistent || r.sent.Headers["tenant"] != "x" || r.sent.ContentType != "application/pdf" || r.sent.MessageId != "m" {
		t.Errorf("sent %+v", r.sent)
	}
	message.DeliveryMode = amqp.Transient
	r.sendErr = fmt.Errorf("%w: too long", errRefused)
	r.steps = nil
	if err := q.Publish(t.Context(), "uploads", "pdf", message, Document{Customer: "acme", ID: "invoice"}); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	if want := []string{"submit", "to uploads pdf", "done acme invoice"}; !slices.Equal(r.steps, want) || r.sent.DeliveryMode != amqp.Transient {
		t.Errorf("%q, sent %+v", r.steps, r.sent)
	}
}

// Nothing is pending that was not sent, and no shared connection is closed by what cannot be.
func TestNothingIsSubmittedThatCannotBeSent(t *testing.T) {
	long := strings.Repeat("x", 256)
	for what, message := range map[string]amqp.Publishing{
		"a header of a wrong type": {Headers: amqp.Table{"pages": uint64(3)}},
		"a long message id":        {MessageId: long},
		"a long name of a header":  {Headers: amqp.Table{long: 1}},
	} {
		r := new(recorder)
		q := r.queue(t)
		if err := q.Publish(t.Context(), "uploads", "pdf", message, Document{Customer: "acme"}); !errors.Is(err, priority.ErrInvalid) || len(r.steps) > 0 {
			t.Errorf("%s: error %v, %q", what, err, r.steps)
		}
	}
}

// A worker that publishes another document often gives it the headers of its own.
func TestPublishReplacesCopiedHeaders(t *testing.T) {
	r := new(recorder)
	q := r.queue(t)
	copied := amqp.Table{"tenant": "x", headerCustomer: "acme", headerDocument: "own", headerExchange: "", headerRoutingKey: "documents", headerFailures: int64(3)}
	for _, document := range []Document{{}, {Customer: "clinic", ID: "child"}} {
		if err := q.Publish(t.Context(), "uploads", "pdf", amqp.Publishing{Headers: copied}, document); err != nil {
			t.Fatal(err)
		}
		delivery := original(amqp.Delivery{Exchange: "uploads", RoutingKey: "pdf", Headers: r.sent.Headers})
		if DocumentOf(delivery) != document || delivery.RoutingKey != "pdf" || count(&delivery, headerFailures) != 0 || text(&delivery, "tenant") != "x" {
			t.Errorf("sent %v", r.sent.Headers)
		}
	}
	if len(copied) != 6 {
		t.Error("the caller's headers were changed")
	}
}

// What waits for its next try comes back as it was, but for what would send it elsewhere.
func TestAFailedMessageKeepsItsProperties(t *testing.T) {
	r := new(recorder)
	q := r.queue(t)
	delivery := r.delivery(amqp.Table{
		"tenant": "x", "CC": []any{"copies"}, "x-death": []any{amqp.Table{"reason": "expired"}}, "x-first-death-queue": "q", "x-delivery-count": int64(1),
	})
	delivery.Exchange, delivery.RoutingKey, delivery.Priority = "uploads", "pdf", 7
	delivery.ContentType, delivery.ReplyTo, delivery.Expiration, delivery.UserId = "application/pdf", "answers", "1000", "somebody"
	fails := func(_ context.Context, delivery amqp.Delivery) error {
		if delivery.Exchange != "uploads" || delivery.RoutingKey != "pdf" {
			t.Errorf("it was published to %q with %q", delivery.Exchange, delivery.RoutingKey)
		}
		return errFails
	}
	for range 2 {
		if err := q.Handle(t.Context(), delivery, fails); err != nil {
			t.Fatal(err)
		}
		s := r.sent
		if s.ContentType != "application/pdf" || s.ReplyTo != "answers" || s.Priority != 7 || s.Expiration != "" || s.UserId != "" {
			t.Errorf("sent %+v", s)
		}
		if s.Headers["tenant"] != "x" || s.Headers["CC"] != nil || s.Headers["x-death"] != nil || s.Headers["x-delivery-count"] != nil {
			t.Errorf("headers %v", s.Headers)
		}
		delivery.Headers, delivery.Exchange, delivery.RoutingKey = s.Headers, "", "documents"
	}
}
