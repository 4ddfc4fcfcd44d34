// Package priorityriver gives River's jobs a priority by customer, so that one
// customer's ten thousand documents do not make all others wait. It is middleware
// for the client that you have:
//
//	client, err := river.NewClient(driver, &river.Config{
//		Middleware: []rivertype.Middleware{priorityriver.New(store, customerOf)},
//		…
//	})
//
// customerOf says whose job it is:
//
//	func customerOf(job *rivertype.JobInsertParams) (
//		customer, document string, cost float64,
//	) {
//		if args, ok := job.Args.(ConvertArgs); ok {
//			return args.Customer, "", float64(args.Pages)
//		}
//		return "", "", 0 // another kind of job
//	}
//
// Nothing else changes. Insert, InsertTx, InsertMany and periodic jobs Submit each document
// and set the job's Priority. A worker calls Done when the document has ended: after
// success, after the last attempt, after [river.JobCancel]; not before a retry, and not for
// a snooze.
//
// The store is a *fleet.Member, from fleet.Join, in all processes that insert or work. It
// answers while Redis is away. With a store that does not, inserts fail meanwhile: see
// [ErrSubmit].
//
// [Settle] calls Done for jobs that end without a worker. River's own tools list and retry
// discarded jobs. docs/queues.md has more.
package priorityriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// CustomerOf says whose job is about to be inserted. An empty customer means that the job
// has none, and runs as without the middleware.
//
// The document is an id that you create, or empty: then the module creates one. Pass an id
// only for unique jobs, and never one that customers choose: a customer who reuses an id
// gets level 1 each time.
//
// The cost is how much work the document is, in any unit that all jobs share, such as
// pages or bytes; 0 if that is not known.
type CustomerOf func(job *rivertype.JobInsertParams) (
	customer, document string, cost float64,
)

// ErrSubmit: a document got no level, because the store failed or because a name or the
// metadata is invalid. None of the jobs was inserted. The error wraps the reason.
var ErrSubmit = errors.New("priorityriver: submit")

// Middleware is a [rivertype.JobInsertMiddleware] and a [rivertype.WorkerMiddleware].
type Middleware struct {
	river.MiddlewareDefaults
	store      priority.Store
	customerOf CustomerOf
}

var (
	_ rivertype.JobInsertMiddleware = (*Middleware)(nil)
	_ rivertype.WorkerMiddleware    = (*Middleware)(nil)
)

// New returns the middleware. Place it first in river.Config.Middleware, so that it sees
// what the others return. It panics if the store or customerOf is nil.
func New(store priority.Store, customerOf CustomerOf) *Middleware {
	if typednil.Is(store) || customerOf == nil {
		panic("priorityriver: New needs a store and a customerOf")
	}
	return &Middleware{store: store, customerOf: customerOf}
}

const key = "docpriority"

// document is the document in a job's metadata.
type document struct {
	Customer string  `json:"customer"`
	ID       string  `json:"document"`
	Cost     float64 `json:"cost,omitempty"`
}

// documentOf reads a job's metadata.
func documentOf(metadata []byte) (document, bool) {
	var of struct {
		Document document `json:"docpriority"`
	}
	err := json.Unmarshal(metadata, &of)
	return of.Document, err == nil && of.Document.Customer != ""
}

// into returns the metadata with the document in it, and everything else unchanged. It
// refuses names that PostgreSQL's JSON would change.
func (d document) into(metadata []byte) ([]byte, error) {
	if !storable(d.Customer) {
		return nil, fmt.Errorf("%w customer: %q is not UTF-8 or has a zero byte; River stores JSON", priority.ErrInvalid, d.Customer)
	}
	if !storable(d.ID) {
		return nil, fmt.Errorf("%w document: %q is not UTF-8 or has a zero byte; River stores JSON", priority.ErrInvalid, d.ID)
	}
	all := make(map[string]json.RawMessage)
	if len(metadata) > 0 {
		if err := json.Unmarshal(metadata, &all); err != nil || all == nil {
			return nil, fmt.Errorf("the job's metadata %.100q is not a JSON object", metadata)
		}
	}
	own, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	all[key] = own
	return json.Marshal(all)
}

// without returns the metadata without a document: a worker that inserts another job often
// copies the metadata of its own job.
func without(metadata []byte) []byte {
	if _, ok := documentOf(metadata); !ok {
		return metadata
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(metadata, &all); err != nil {
		return metadata
	}
	delete(all, key)
	rest, err := json.Marshal(all)
	if err != nil {
		return metadata
	}
	return rest
}

func storable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsRune(name, 0)
}

// doneTime bounds a Done if the store hangs and has no timeout.
const doneTime = 5 * time.Second

// done calls Done, even if the context has ended.
func done(ctx context.Context, store priority.Store, of document, took time.Duration) error {
	saying, cancel := context.WithTimeout(context.WithoutCancel(ctx), doneTime)
	defer cancel()
	_, err := store.Done(saying, of.Customer, of.ID, took)
	if err != nil {
		slog.WarnContext(ctx, "priorityriver: a document counts as pending until its lease ends",
			"customer", of.Customer, "document", of.ID, "error", err)
	}
	return err
}
