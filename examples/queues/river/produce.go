package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/queue"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// MaxBody is the largest body in bytes. Keep what is larger elsewhere, and send
// where it is: a body is base64 in JSON, of which PostgreSQL has an index.
const MaxBody = 1 << 20

// Produce gives a customer's document its level and inserts a job for it. It goes
// on until PostgreSQL has confirmed the job, or the context ends: then the job may be
// there or not, and the same Produce may be called again.
//
// A document that is waiting, in hand or was served in the last day is not inserted
// a second time.
func (d *Documents) Produce(ctx context.Context, customer, document string, body []byte) (err error) {
	ctx, headers, end := priorityotel.StartSend(ctx, system, d.options.Name)
	defer func() { end(err) }()
	options, err := d.submit(ctx, customer, document, body, headers)
	if err != nil {
		return err
	}
	for {
		try, cancel := context.WithTimeout(ctx, patience)
		inserted, err := d.client.Insert(try, job{customer, document, body}, options)
		cancel()
		if err == nil {
			d.inserted(ctx, customer, document, inserted)
			return nil
		}
		if ctx.Err() == nil {
			d.options.Logger.Warn("a document is not inserted yet", "customer", customer, "document", document, "error", err)
		}
		if sleep(ctx, pause) != nil {
			return fmt.Errorf("river: insert %q of %q: %w, after: %w", document, customer, context.Cause(ctx), err)
		}
	}
}

// ProduceTx inserts the job with a transaction of the caller's: where that is not
// committed, there is no job. The document counts as pending all the same, until
// store.Done(ctx, customer, document, 0) or the end of its lease.
func (d *Documents) ProduceTx(ctx context.Context, tx pgx.Tx, customer, document string, body []byte) (err error) {
	ctx, headers, end := priorityotel.StartSend(ctx, system, d.options.Name)
	defer func() { end(err) }()
	options, err := d.submit(ctx, customer, document, body, headers)
	if err != nil {
		return err
	}
	inserted, err := d.client.InsertTx(ctx, tx, job{customer, document, body}, options)
	if err != nil { // the transaction cannot be committed any more
		d.done(ctx, job{Customer: customer, Document: document}, 0)
		return fmt.Errorf("river: insert %q of %q: %w", document, customer, err)
	}
	d.inserted(ctx, customer, document, inserted)
	return nil
}

// submit counts the document, and returns how its job is to be inserted.
func (d *Documents) submit(ctx context.Context, customer, document string, body []byte, headers map[string]string) (*river.InsertOpts, error) {
	switch {
	case !storable(customer):
		return nil, fmt.Errorf("%w: %q is not UTF-8, or has a zero byte, and River keeps JSON", priority.ErrInvalidCustomer, customer)
	case !storable(document):
		return nil, fmt.Errorf("%w: %q is not UTF-8, or has a zero byte, and River keeps JSON", priority.ErrInvalidDocument, document)
	case len(body) > MaxBody:
		return nil, fmt.Errorf("river: %q of %q has %d bytes, more than %d", document, customer, len(body), MaxBody)
	}
	decision, err := d.store.Submit(ctx, customer, document, float64(len(body)))
	if err != nil {
		return nil, err
	}
	beside, err := json.Marshal(metadata{Trace: headers})
	if err != nil {
		return nil, err
	}
	return &river.InsertOpts{
		Metadata:    beside,
		Queue:       d.options.Name,
		Priority:    queue.River(decision.Level, d.store.Last()),
		MaxAttempts: len(d.options.Backoff) + 1,
		// An insert whose reply was lost finds its job when it is sent again.
		UniqueOpts: river.UniqueOpts{ByArgs: true, ByQueue: true},
	}, nil
}

// metadata is what a job has beside the document.
type metadata struct {
	Trace map[string]string `json:"trace,omitempty"` // the headers of the trace that it is a part of
}

const system = "river" // in spans

// storable returns whether a name comes back unchanged from PostgreSQL's JSON.
func storable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsRune(name, 0)
}

// inserted takes back the Submit of a document that has been served already: nobody
// else would.
func (d *Documents) inserted(ctx context.Context, customer, document string, result *rivertype.JobInsertResult) {
	if result.UniqueSkippedAsDuplicate && result.Job.State == rivertype.JobStateCompleted {
		d.options.Logger.Info("a document was served already", "customer", customer, "document", document)
		d.done(ctx, job{Customer: customer, Document: document}, 0)
	}
}
