// Package priorityriver gives River's jobs a priority by customer, so that one
// customer's ten thousand documents do not make all others wait. It is middleware
// for the client that you have:
//
//	middleware, err := priorityriver.New(store, customerOf)
//	…
//	client, err := river.NewClient(driver, &river.Config{
//		Middleware: []rivertype.Middleware{middleware},
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
// answers while Redis is away. With a store that does not, inserts fail meanwhile.
//
// [Settle] calls Done for jobs that end without a worker. River's own tools list and retry
// discarded jobs. docs/queues.md has more.
package priorityriver

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
)

// Middleware is a [rivertype.JobInsertMiddleware] and a [rivertype.WorkerMiddleware].
type Middleware struct {
	river.MiddlewareDefaults
	store      priority.Store
	customerOf func(job *rivertype.JobInsertParams) (customer, document string, cost float64)
}

var (
	_ rivertype.JobInsertMiddleware = (*Middleware)(nil)
	_ rivertype.WorkerMiddleware    = (*Middleware)(nil)
)

// New returns the middleware. Place it first in river.Config.Middleware, so that it sees
// what the others return. An error wraps [priority.ErrInvalid].
//
// The function customerOf says whose job is about to be inserted. An empty customer means that the job
// has none, and runs as without the middleware. The document is an id that you create, or
// empty: then the module creates one. Return a new id for each job, or the same one for the
// same unique job, and never one that customers choose: a customer who reuses an id gets level
// 1 each time. The cost is how much work the document is, in any unit that all jobs share, such
// as pages or bytes; 0 if that is not known.
func New(store priority.Store, customerOf func(job *rivertype.JobInsertParams) (customer, document string, cost float64)) (*Middleware, error) {
	switch {
	case typednil.Is(store):
		return nil, invalid("option: the store is nil")
	case customerOf == nil:
		return nil, invalid("option: customerOf is nil")
	}
	return &Middleware{store: store, customerOf: customerOf}, nil
}

func invalid(what string) error {
	return fmt.Errorf("priorityriver: %w %s", priority.ErrInvalid, what)
}

const key = "docpriority"

// document travels in a job's metadata.
type document struct {
	Customer string  `json:"customer"`
	ID       string  `json:"document"`
	Cost     float64 `json:"cost,omitempty"`
}

func documentOf(metadata []byte) (document, bool) {
	var job struct {
		Document document `json:"docpriority"`
	}
	err := json.Unmarshal(metadata, &job)
	return job.Document, err == nil && job.Document.Customer != ""
}

// addTo returns the metadata with the document in it, and everything else unchanged. It
// refuses names that PostgreSQL's JSON would change.
func (d document) addTo(metadata []byte) ([]byte, error) {
	if !isStorable(d.Customer) {
		return nil, invalid(fmt.Sprintf("customer: %q is not UTF-8 or has a zero byte; River stores JSON", d.Customer))
	}
	if !isStorable(d.ID) {
		return nil, invalid(fmt.Sprintf("document: %q is not UTF-8 or has a zero byte; River stores JSON", d.ID))
	}
	var fields map[string]json.RawMessage
	if len(metadata) > 0 {
		if err := json.Unmarshal(metadata, &fields); err != nil {
			return nil, invalid(fmt.Sprintf("metadata: %.100q of the job is not a JSON object", metadata))
		}
	}
	if fields == nil { // there is none, or null
		fields = make(map[string]json.RawMessage)
	}
	added, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	fields[key] = added
	return json.Marshal(fields)
}

// plainMetadata returns the metadata without a document: a worker that inserts another job
// often copies the metadata of its own job.
func plainMetadata(metadata []byte) []byte {
	if _, ok := documentOf(metadata); !ok {
		return metadata
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(metadata, &fields); err != nil {
		return metadata
	}
	delete(fields, key)
	plain, err := json.Marshal(fields)
	if err != nil {
		return metadata
	}
	return plain
}

func isStorable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsRune(name, 0)
}
