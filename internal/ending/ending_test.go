package ending_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ending"
	"github.com/docpriority/priority/memory"
)

// hanging is a store whose Done lasts until the context ends.
type hanging struct{ memory.Store }

func (*hanging) Done(ctx context.Context, _, _ string, _ time.Duration) (priority.Ended, error) {
	<-ctx.Done()
	return priority.Ended{}, ctx.Err()
}

func TestAStoreThatHangsHoldsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := ending.Done(t.Context(), new(hanging), "acme", "invoice", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
