package fleet

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// Slot is what the processes of a fleet counted in five minutes of Redis's time. A process
// counts up to a minute late, and not what Redis missed in an outage.
type Slot struct {
	Began time.Time

	// Documents counts the documents by the level that callers got.
	Documents map[priority.Level]int64

	// Waits is how long those that ended took until Done, by the level that they had. Only every
	// fourth bucket is used.
	Waits map[priority.Level]Histogram
}

const (
	slotLength = 5 * time.Minute // as in lua/report.lua
	mostSlots  = int64(24*time.Hour/slotLength) + 1
	perOctave  = 4 // buckets of a histogram: an octave doubles the wait
	lastOctave = (lastBucket + perOctave - 1) / perOctave
	maxSum     = maxNumber * maxReads
)

// History returns what happened in the last day, the earliest five minutes first, and the current
// ones last. It leaves out those in which no process counted anything. An error comes with those that
// could be read. Prefix "" means "priority".
func History(ctx context.Context, client priority.RedisClient, prefix string) ([]Slot, error) {
	names, err := namesOf(client, prefix)
	if err != nil {
		return nil, err
	}
	pipe := client.Pipeline()
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("fleet: cannot read Redis's time: %w", err)
	}
	current := clock.Val().UnixMilli() / slotLength.Milliseconds()
	found := make(map[int64]*redis.MapStringStringCmd)
	for number := current - mostSlots + 1; number <= current; number++ {
		found[number] = pipe.HGetAll(ctx, names.History(number))
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	var slots []Slot
	var failed error
	for number := current - mostSlots + 1; number <= current; number++ {
		fields, err := found[number].Result()
		if err != nil {
			failed = fmt.Errorf("fleet: cannot read %q: %w", names.History(number), err)
		}
		if len(fields) > 0 {
			slots = append(slots, slotOf(time.UnixMilli(number*slotLength.Milliseconds()), fields))
		}
	}
	return slots, failed
}

// slotOf reads a slot. It leaves out fields that no process writes.
func slotOf(began time.Time, fields map[string]string) Slot {
	slot := Slot{began, make(map[priority.Level]int64), make(map[priority.Level]Histogram)}
	for field, text := range fields {
		if field == "" {
			continue
		}
		kind, place := field[0], field[1:]
		digits, octaveDigits, hasOctave := strings.Cut(place, ".")
		number, isLevel := within(digits, 1, maxLevel)
		octave, isOctave := within(octaveDigits, 0, lastOctave)
		n, isSum := within(text, 0, maxSum)
		level := priority.Level(number)
		switch {
		case !isLevel || !isSum:
		case kind == 'd' && !hasOctave:
			slot.Documents[level] = n
		case kind == 'w' && isOctave:
			if slot.Waits[level] == nil {
				slot.Waits[level] = make(Histogram)
			}
			slot.Waits[level][min(int(octave)*perOctave, lastBucket)] = n
		}
	}
	return slot
}

// within reads a number within bounds.
func within(digits string, least, most int64) (n int64, ok bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n >= least && n <= most
}

// history returns what report.lua adds to the fleet's history: fields, each with its number, of the
// steps that are over and not there yet; in the end of the current one, too. Call added when Redis
// has them.
func (c *collector) history(now time.Time, ending bool) (fields []any, added func()) {
	c.mu.Lock()
	steps, before := c.window.kept(now.Sub(c.joined)), c.added
	c.mu.Unlock()
	last := steps[len(steps)-1].number
	if !ending {
		last--
	}
	sums := make(map[string]int64)
	for _, s := range steps {
		if s.number <= before || s.number > last {
			continue
		}
		for _, documents := range []map[priority.Level]int64{s.byCount, s.byLoad} {
			for level, n := range documents {
				sums[fmt.Sprint("d", level)] += n
			}
		}
		for level, h := range s.waits {
			for bucket, n := range h {
				sums[fmt.Sprint("w", level, ".", (bucket+perOctave-1)/perOctave)] += n
			}
		}
	}
	for field, n := range sums {
		fields = append(fields, field, n)
	}
	return fields, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.added = max(c.added, last)
	}
}
