package page

import (
	"context"
	"sync"
)

// background runs what looks at Redis while no request waits for it.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards closed; nothing begins after it
	closed  bool
	running sync.WaitGroup
}

func newBackground() *background {
	b := &background{}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// begin runs something, and reports whether it does.
func (b *background) begin(run func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Go(func() { run(b.ctx) })
	return true
}

// close ends everything, and waits until it has ended or ctx ends.
func (b *background) close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	over := make(chan struct{})
	go func() {
		b.running.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
