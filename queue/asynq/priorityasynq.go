// Package priorityasynq gives asynq's tasks a priority by customer, so that one customer's
// ten thousand documents do not make all others wait. Each level has a separate queue,
// documents-1 for level 1, and servers with StrictPriority take tasks from the first one
// that has any.
//
// Where you enqueue, wrap the client that you have, and say whose task it is:
//
//	client, err := priorityasynq.NewClient(asynqClient, store, "documents")
//	…
//	info, err := client.Enqueue(ctx, customer, task, asynq.MaxRetry(5))
//
// In workers, serve the levels' queues, and use the middleware:
//
//	queues := queue.AsynqQueues("documents", store.Last())
//	queues["default"] = 10 // your other tasks, before all documents
//	server := asynq.NewServer(redis, asynq.Config{
//		Queues:            queues,
//		StrictPriority:    true,                  // without it a flood keeps most workers
//		TaskCheckInterval: 50 * time.Millisecond, // or a first document waits up to 1.5 s
//	})
//	middleware, err := priorityasynq.Middleware(store)
//	…
//	mux := asynq.NewServeMux()
//	mux.Use(middleware)
//
// A task keeps its type, its payload and its headers; its options go to Enqueue. A worker
// calls Done when the document has ended: after success, after the last retry, and after
// [asynq.SkipRetry] and [asynq.RevokeTask]; not before a retry.
//
// The store is a *fleet.Member, from fleet.Join, in all processes that enqueue or work. It
// answers while its Redis is away. With a store that does not, Enqueue fails meanwhile.
// While asynq's Redis is away, Enqueue fails in any case: repeat it with the same
// [Document].
//
// [Client.Settle] calls Done for tasks that end without a worker. asynq's own tools list
// and retry archived tasks. docs/queues.md has more.
package priorityasynq

import (
	"fmt"
	"maps"
	"strconv"
	"unicode/utf8"

	"github.com/hibiken/asynq"
)

const (
	customerHeader = "docpriority-customer"
	documentHeader = "docpriority-document"
	costHeader     = "docpriority-cost"
)

// Document is an option of [Client.Enqueue]: the document's id. Without it, that is the
// asynq.TaskID, or else one that the module makes. Use an id that you create, never one that customers choose: a customer who
// reuses an id gets level 1 each time.
func Document(id string) asynq.Option { return option{documentOpt, "Document", id} }

// Cost is an option of [Client.Enqueue]: how much work the document is, in any unit that all
// tasks share, such as pages or bytes.
func Cost(cost float64) asynq.Option { return option{costOpt, "Cost", cost} }

const (
	documentOpt asynq.OptionType = -1 - iota // asynq ignores what it does not know
	costOpt
)

type option struct {
	kind  asynq.OptionType
	name  string
	value any
}

func (o option) String() string         { return fmt.Sprintf("%s(%v)", o.name, o.value) }
func (o option) Type() asynq.OptionType { return o.kind }
func (o option) Value() any             { return o.value }

// document travels in a task's headers.
type document struct {
	customer, id string
	cost         float64
}

func documentOf(headers map[string]string) (d document, ok bool) {
	d.customer, d.id = headers[customerHeader], headers[documentHeader]
	d.cost, _ = strconv.ParseFloat(headers[costHeader], 64)
	return d, d.customer != ""
}

// addTo returns the headers with the document's. It refuses names that are not UTF-8,
// which asynq cannot carry.
func (d document) addTo(headers map[string]string) (map[string]string, error) {
	if !utf8.ValidString(d.customer) {
		return nil, invalid(fmt.Sprintf("customer: %q is not UTF-8", d.customer))
	}
	if !utf8.ValidString(d.id) {
		return nil, invalid(fmt.Sprintf("document: %q is not UTF-8", d.id))
	}
	added := plainHeaders(headers)
	added[customerHeader], added[documentHeader] = d.customer, d.id
	if d.cost != 0 {
		added[costHeader] = strconv.FormatFloat(d.cost, 'g', -1, 64)
	}
	return added, nil
}

// plainHeaders returns the headers that do not name a document.
func plainHeaders(headers map[string]string) map[string]string {
	plain := make(map[string]string)
	maps.Copy(plain, headers)
	for _, name := range []string{customerHeader, documentHeader, costHeader} {
		delete(plain, name)
	}
	return plain
}

// plainTask returns a task that is no document: a handler that enqueues another task often
// copies the headers of its own task.
func plainTask(task *asynq.Task) *asynq.Task {
	if task == nil {
		return nil
	}
	if _, ok := documentOf(task.Headers()); !ok {
		return task
	}
	return asynq.NewTaskWithHeaders(task.Type(), task.Payload(), plainHeaders(task.Headers()))
}
