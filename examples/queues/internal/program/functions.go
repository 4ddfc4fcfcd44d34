package program

import "context"

// Functions are a Queue: what is left of a module's calls in the words of all queues.
type Functions struct {
	OnProduce func(ctx context.Context, customer, document string, body []byte) error
	OnWork    func(ctx context.Context, process Process) error
	OnDead    func(ctx context.Context) ([]string, error)
	OnRemove  func(ctx context.Context) error
	OnClose   func()
}

// Produce calls OnProduce.
func (f *Functions) Produce(ctx context.Context, customer, document string, body []byte) error {
	return f.OnProduce(ctx, customer, document, body)
}

// Work calls OnWork.
func (f *Functions) Work(ctx context.Context, process Process) error { return f.OnWork(ctx, process) }

// Dead calls OnDead.
func (f *Functions) Dead(ctx context.Context) ([]string, error) { return f.OnDead(ctx) }

// Remove calls OnRemove.
func (f *Functions) Remove(ctx context.Context) error { return f.OnRemove(ctx) }

// Close calls OnClose.
func (f *Functions) Close() error {
	f.OnClose()
	return nil
}

// IDs returns what lists the documents' ids of a module's dead letters.
func IDs[Letter any](dead func(context.Context) ([]Letter, error), document func(Letter) string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) (ids []string, _ error) {
		letters, err := dead(ctx)
		for _, letter := range letters {
			ids = append(ids, document(letter))
		}
		return ids, err
	}
}
