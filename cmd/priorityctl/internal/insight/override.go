package insight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/keys"
)

// Override is a customer's override, and words for it.
type Override struct {
	control.Override
	Left time.Duration // how long it went on when it was read; 0 if it has no end
}

func overrideAt(now time.Time, o control.Override) Override {
	if o.Until.IsZero() {
		return Override{Override: o}
	}
	return Override{o, max(o.Until.Sub(now), time.Millisecond)}
}

// Overrides returns all overrides, the next to end first. An error that is [Missing] comes with
// those that could be read.
func (s *Snapshot) Overrides(ctx context.Context) ([]Override, error) {
	var missing Missing
	s, err := s.OfOverrides(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.Admin.Overrides(ctx)
	if cluster, ok := s.Client.(*redis.ClusterClient); ok && err != nil {
		found, missing = s.eachOverride(ctx, cluster)
	}
	if err != nil && missing == nil {
		return nil, err
	}
	now, err := s.Admin.Now(ctx)
	all := make([]Override, len(found))
	for at, o := range found {
		all[at] = overrideAt(now, o)
	}
	return all, cmp.Or(err, missing.Err())
}

// eachOverride reads the overrides one by one, as some are on a master that cannot be asked.
func (s *Snapshot) eachOverride(ctx context.Context, cluster *redis.ClusterClient) (found []control.Override, missing Missing) {
	for _, name := range cluster.ZRange(ctx, keys.Prefix(s.Prefix).Overrides(), 0, -1).Val() {
		master, err := cluster.MasterForKey(ctx, s.Store.Keys(name).Override)
		if err == nil {
			err = master.Ping(ctx).Err() // which names the master
		}
		var o *control.Override
		if !Unreachable(err) {
			o, err = s.Admin.Override(ctx, name)
		}
		if o != nil {
			found = append(found, *o)
		} else if err != nil && !errors.Is(err, control.ErrCorrupt) {
			missing.Add(err)
		}
	}
	return found, missing
}

// Says says what the override does.
func (o Override) Says() string { return Says(o.Bounds) }

// ByWhom says who has set it, and why.
func (o Override) ByWhom() string {
	if o.By == "" {
		return "set by hand, so it is not known by whom"
	}
	return fmt.Sprintf("by %s: %s", Shown(o.By), Quoted(o.Why))
}

// Ends says until when it holds.
func (o Override) Ends() string {
	if o.Until.IsZero() {
		return "without an end"
	}
	return fmt.Sprintf("until %s, for %s more", Moment(o.Until), Span(o.Left))
}

// Says says what an override does: "pinned to level 2", "level 5 at the latest".
func Says(bounds priority.Bounds) string {
	switch {
	case bounds.Earliest == bounds.Latest:
		return fmt.Sprintf("pinned to level %d", bounds.Earliest)
	case bounds.Earliest == 0:
		return fmt.Sprintf("level %d at the latest", bounds.Latest)
	}
	return fmt.Sprintf("level %d at the earliest", bounds.Earliest)
}
