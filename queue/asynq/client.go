package priorityasynq

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ending"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/queue"
)

// Client enqueues customers' tasks.
type Client struct {
	client *asynq.Client
	store  priority.Store
	name   string
}

// NewClient returns a client for the queues name-1 for level 1, name-2 and so on. The
// caller owns the asynq.Client and closes it. An error wraps [priority.ErrInvalid].
func NewClient(client *asynq.Client, store priority.Store, name string) (*Client, error) {
	switch {
	case client == nil:
		return nil, invalid("option: the client is nil")
	case typednil.Is(store):
		return nil, invalid("option: the store is nil")
	case name == "":
		return nil, invalid("option: the name is empty")
	}
	return &Client{client, store, name}, nil
}

func invalid(what string) error {
	return fmt.Errorf("priorityasynq: %w %s", priority.ErrInvalid, what)
}

// Enqueue submits the document and puts the task into the queue of its level. The options
// are asynq's, [Document] and [Cost]. Pass all of them to Enqueue: asynq hides the options
// of asynq.NewTask, so these do not apply to a customer's task. An asynq.Queue among them is
// ignored. asynq.Group and asynq.Unique are refused: a group's tasks are served as one, and
// a task would be unique only within its level.
//
// An asynq.TaskID is also the document's id, if there is no Document: as long as the document is
// pending, its task gets the same level again, so that asynq finds the one that is there, unless
// Redis was away. Another customer's task must not have the same one. A task of asynq.ProcessIn or
// asynq.ProcessAt counts from then on.
//
// A task of an empty customer goes to asynq unchanged, except that headers left by a
// customer's task are removed.
//
// If the store fails, or an argument is invalid, which wraps [priority.ErrInvalid], nothing
// is enqueued. If asynq returns an error, the document is no longer pending. But if asynq
// already has the task (asynq.ErrTaskIDConflict), the document ends with that one. If that one has
// ended, and an asynq.Inspector's GetTaskInfo says that it is completed or archived, call the
// store's Done.
func (c *Client) Enqueue(ctx context.Context, customer string, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	if customer == "" || task == nil {
		return c.client.EnqueueContext(ctx, plainTask(task), opts...)
	}
	d, delay, err := documentFrom(customer, opts)
	if err != nil {
		return nil, err
	}
	createsID := d.id == ""
	if createsID {
		d.id = rand.Text()
	}
	headers, err := d.addTo(task.Headers())
	if err != nil {
		return nil, err
	}
	decision, err := c.store.Submit(ctx, customer, priority.Document{ID: d.id, Cost: d.cost, Delay: delay})
	if err != nil {
		if createsID && errors.Is(err, priority.ErrOutcomeUnknown) { // nobody can submit it again
			_ = ending.Done(ctx, c.store, d.customer, d.id, 0)
		}
		return nil, err
	}
	level := queue.Name(c.name, decision.Level, c.store.Last())
	task = asynq.NewTaskWithHeaders(task.Type(), task.Payload(), headers)
	info, err := c.client.EnqueueContext(ctx, task, append(slices.Clone(opts), asynq.Queue(level))...)
	switch {
	case errors.Is(err, asynq.ErrTaskIDConflict): // a lost reply is such a conflict, too: go-redis sends again
		err = fmt.Errorf("priorityasynq: %s: %w", level, err)
	case err != nil:
		_ = ending.Done(ctx, c.store, d.customer, d.id, 0)
	}
	return info, err
}

// documentFrom returns the document that the options describe, and in how long its task is due.
func documentFrom(customer string, opts []asynq.Option) (d document, delay time.Duration, err error) {
	d.customer = customer
	taskID := ""
	for _, opt := range opts {
		if opt == nil {
			continue // as asynq does
		}
		switch opt.Type() {
		case asynq.GroupOpt, asynq.UniqueOpt:
			return d, 0, invalid(fmt.Sprintf("option: %v works within one queue, and each level has its own", opt))
		case asynq.TaskIDOpt:
			taskID, _ = opt.Value().(string)
		case asynq.ProcessInOpt:
			delay, _ = opt.Value().(time.Duration)
		case asynq.ProcessAtOpt:
			at, _ := opt.Value().(time.Time)
			delay = time.Until(at)
		case documentOpt:
			d.id, _ = opt.Value().(string)
		case costOpt:
			d.cost, _ = opt.Value().(float64)
		}
	}
	d.id = cmp.Or(d.id, taskID)
	return d, min(max(delay, 0), priority.MaxDelay), nil
}
