// Package backlog reads what waits: the pending documents of customers, and by level.
package backlog

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/keys"
)

// most is how many documents of a customer are read before the last load, and how many of a flood.
const most = 1000

// Customer is one whose documents are read, and what Peek said of it.
type Customer struct {
	Name  string
	State priority.State
}

// Document is a pending document.
type Document struct {
	Customer string // of an account's documents the user
	ID       string
	Level    priority.Level
	Flood    bool          // whether it was beyond the last load
	Age      time.Duration // since it was due
}

// Level is what waits at a level, of the documents that were read, and the oldest of them.
type Level struct {
	Pending int64
	Oldest  Document
	AtLeast bool // whether more may wait there, which were not read
}

// Reader reads documents as of Redis's time Began, which is no later than any State, and until Now.
type Reader struct {
	Client     redis.UniversalClient
	Store      *priority.RedisStore // knows the customers' keys
	Began, Now time.Time
}

// Documents returns the pending documents of each customer, the oldest first: at most a thousand
// before the last load, then as many of a flood.
func (r Reader) Documents(ctx context.Context, customers []Customer) ([][]Document, error) {
	return r.read(ctx, customers, func(c Customer) []redis.ZRangeArgs {
		// A flood's documents have negative scores, the oldest next to zero, and count for longer
		// than the lease of others. What is due later is not pending yet.
		until := 256 * (r.Now.UnixMilli() + 1)
		return []redis.ZRangeArgs{
			{Start: r.since(min(c.State.Lease, c.State.Oldest)), Stop: until},
			{Start: -r.since(c.State.Oldest), Stop: -until, Rev: true},
		}
	})
}

// Lost returns the documents of each customer whose lease ended within a day of their due time, the
// oldest first, at most a thousand. Those of a flood have the longest lease.
func (r Reader) Lost(ctx context.Context, customers []Customer) ([][]Document, error) {
	return r.read(ctx, customers, func(c Customer) []redis.ZRangeArgs {
		return []redis.ZRangeArgs{{Start: r.since(24 * time.Hour), Stop: fmt.Sprintf("(%d", r.since(c.State.Lease))}}
	})
}

// since is the score of a document that has been due for so long.
func (r Reader) since(age time.Duration) int64 { return 256 * r.Began.Add(-age).UnixMilli() }

func (r Reader) read(ctx context.Context, customers []Customer, ranges func(Customer) []redis.ZRangeArgs) ([][]Document, error) {
	pipe, read := r.Client.Pipeline(), make([][]*redis.ZSliceCmd, len(customers))
	for i, c := range customers {
		for _, part := range ranges(c) {
			part.Key, part.ByScore, part.Count = r.Store.Keys(c.Name).Pending, true, most
			read[i] = append(read[i], pipe.ZRangeArgsWithScores(ctx, part))
		}
	}
	if _, err := pipe.Exec(ctx); len(customers) > 0 && err != nil {
		return nil, fmt.Errorf("pending documents: %w", err)
	}
	documents := make([][]Document, len(customers))
	for i, c := range customers {
		for _, cmd := range read[i] {
			for _, z := range cmd.Val() {
				member, _ := z.Member.(string)
				if who, id, ok := keys.Document(c.Name, member); ok {
					score := int64(math.Abs(z.Score))
					age := max(time.Duration(r.Now.UnixMilli()-score/256)*time.Millisecond, 0)
					documents[i] = append(documents[i], Document{who, id, priority.Level(score % 256), z.Score < 0, age})
				}
			}
		}
	}
	return documents, nil
}

// Levels adds the documents up by their levels. Those of a customer that were not read are younger
// than the others, and at no earlier level, unless an operator has decided so.
func Levels(customers []Customer, documents [][]Document) map[priority.Level]Level {
	levels, last := make(map[priority.Level]Level), priority.Level(0)
	for _, all := range documents {
		for _, d := range all {
			levels[d.Level] = levels[d.Level].with(d)
			last = max(last, d.Level)
		}
	}
	for i, all := range documents {
		if len(all) < most || customers[i].State.Pending <= int64(len(all)) {
			continue
		}
		last = max(last, customers[i].State.Level) // the newest document's
		for level := slices.MinFunc(all, func(a, b Document) int { return cmp.Compare(a.Level, b.Level) }).Level; level <= last; level++ {
			more := levels[level]
			more.AtLeast = true
			levels[level] = more
		}
	}
	return levels
}

func (l Level) with(d Document) Level {
	if l.Pending == 0 || d.Age > l.Oldest.Age {
		l.Oldest = d
	}
	l.Pending++
	return l
}
