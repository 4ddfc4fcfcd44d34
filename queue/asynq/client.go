package priorityasynq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
)

// Client enqueues customers' tasks.
type Client struct {
	client *asynq.Client
	store  priority.Store
	name   string
}

// NewClient returns a client for the queues name-1 for level 1, name-2 and so on. The
// caller owns the asynq.Client and closes it.
func NewClient(client *asynq.Client, store priority.Store, name string) (*Client, error) {
	switch {
	case client == nil:
		return nil, fmt.Errorf("priorityasynq: %w option: the client is nil", priority.ErrInvalid)
	case typednil.Is(store):
		return nil, fmt.Errorf("priorityasynq: %w option: the store is nil", priority.ErrInvalid)
	case name == "":
		return nil, fmt.Errorf("priorityasynq: %w option: the name is empty", priority.ErrInvalid)
	}
	return &Client{client, store, name}, nil
}

// Enqueue submits the document and puts the task into the queue of its level. The options
// are asynq's, [Document] and [Cost]. Pass all of them to Enqueue: asynq hides the options
// of asynq.NewTask, so these do not apply to a customer's task. An asynq.Queue among them is
// ignored. asynq.Group and asynq.Unique are refused: a group's tasks are served as one, and
// a task would be unique, like an asynq.TaskID, only within its level.
//
// A task of an empty customer goes to asynq unchanged, except that headers left by a
// customer's task are removed.
//
// If asynq returns an error, the document is no longer pending. But if asynq already has a
// task with your document id (asynq.ErrTaskIDConflict), the document ends with that task.
func (c *Client) Enqueue(ctx context.Context, customer string, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	if customer == "" || task == nil {
		return c.client.EnqueueContext(ctx, withoutDocument(task), opts...)
	}
	of, taskID, err := read(customer, opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSubmit, err)
	}
	isOwn := of.id != ""
	if !isOwn {
		of.id = rand.Text()
	}
	headers, err := of.into(task.Headers())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSubmit, err)
	}
	decision, err := c.store.Submit(ctx, customer, of.id, of.cost)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSubmit, err)
	}
	level := queue.Name(c.name, decision.Level, c.store.Last())
	task = asynq.NewTaskWithHeaders(task.Type(), task.Payload(), headers)
	opts = append(slices.Clone(opts), asynq.Queue(level))
	isMade := taskID == ""
	if isMade {
		taskID = rand.Text()
		opts = append(opts, asynq.TaskID(taskID))
	}
	info, err := c.client.EnqueueContext(ctx, task, opts...)
	isThere := errors.Is(err, asynq.ErrTaskIDConflict)
	switch {
	case err == nil:
	case isThere && isMade: // go-redis has resent it, because a reply was lost
		return &asynq.TaskInfo{ID: taskID, Queue: level, Type: task.Type(), Payload: task.Payload(), Headers: headers}, nil
	case isThere && isOwn:
	default:
		_ = done(ctx, c.store, of, 0)
	}
	return info, err
}

// read returns the document that the options describe, and the task's id, if they set it.
func read(customer string, opts []asynq.Option) (of document, taskID string, err error) {
	of.customer = customer
	for _, opt := range opts {
		if opt == nil {
			continue // as asynq does
		}
		switch opt.Type() {
		case asynq.GroupOpt, asynq.UniqueOpt:
			return of, "", fmt.Errorf("%w option: %v works within one queue, and each level has its own", priority.ErrInvalid, opt)
		case asynq.TaskIDOpt:
			taskID, _ = opt.Value().(string)
		case documentOpt:
			of.id, _ = opt.Value().(string)
		case costOpt:
			of.cost, _ = opt.Value().(float64)
		}
	}
	return of, taskID, nil
}
