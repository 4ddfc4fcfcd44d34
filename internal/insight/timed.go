package insight

import (
	"context"
	"time"

	"github.com/docpriority/priority/control"
)

// Timed returns an Inspector that knows Redis's time, and follows the workers' own
// options. It works even if the rules that operators have set cannot be read or
// used.
func (i *Inspector) Timed(ctx context.Context) (*Inspector, error) {
	settings, err := i.Admin.Settings(ctx)
	if settings.Now.IsZero() {
		return nil, err
	}
	next := *i
	if i.before != nil {
		next = *i.before
	}
	own := next
	next.before, next.Own, next.read = &own, own.Store, time.Now()
	next.Settings = &control.Settings{Version: settings.Version, Now: settings.Now}
	return &next, nil
}
