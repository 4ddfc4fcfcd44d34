package page

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// sample is what the fleet did in a minute.
type sample struct {
	at        time.Time
	Workers   int                         `json:"workers"`
	Degraded  int                         `json:"degraded,omitempty"`
	Errors    int64                       `json:"errors,omitempty"`
	Documents map[priority.Level]int64    `json:"documents"`
	Waits     map[priority.Level][2]int64 `json:"waits,omitempty"` // the median and the 95th of 100, in milliseconds
}

// day has the samples of the last day, the latest last. It does not change.
type day []sample

const (
	dayMinutes = 24 * 60
	sampling   = time.Minute
)

// sampleScript adds a sample, unless another page has added one in this minute of
// Redis's clock: an entry's id must be later than the one before it.
const sampleScript = `local id = math.floor(redis.call('TIME')[1] / 60) * 60000
redis.pcall('XADD', KEYS[1], 'MAXLEN', ARGV[2], string.format('%.0f-0', id), 's', ARGV[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])`

func (f *cache) dayKey() string { return f.own.Prefix + ":{fleet}:history" }

// sampleOf is what a fleet did in the last minute.
func sampleOf(found *insight.Snapshot) sample {
	s := sample{Workers: found.Workers, Degraded: found.Degraded, Documents: make(map[priority.Level]int64), Waits: make(map[priority.Level][2]int64)}
	for _, n := range found.Errors {
		s.Errors += n
	}
	for _, level := range found.Levels {
		if n := level.Documents(); n > 0 {
			s.Documents[level.Level] = n
		}
		if level.Done > 0 {
			s.Waits[level.Level] = [2]int64{level.MedianMS, level.P95MS}
		}
	}
	return s
}

// keepDay writes a sample each minute, while there is a fleet.
func (f *cache) keepDay(ctx context.Context) {
	for every := time.NewTicker(sampling); ; {
		_ = f.addSample(ctx) // the page says why
		select {
		case <-every.C:
		case <-ctx.Done():
			every.Stop()
			return
		}
	}
}

func (f *cache) addSample(ctx context.Context) error {
	found, err := f.own.Snapshot(ctx, 0)
	if err != nil || found.Workers == 0 {
		return err
	}
	text, err := json.Marshal(sampleOf(found))
	if err != nil {
		return err
	}
	return f.own.Client.Eval(ctx, sampleScript, []string{f.dayKey()}, text, dayMinutes, (25 * time.Hour).Milliseconds()).Err()
}

// readDay reads the samples since its last call.
func (f *cache) readDay(ctx context.Context) (day, error) {
	known := f.day.known().value
	from := "-"
	if len(known) > 0 {
		from = fmt.Sprintf("(%d-0", known[len(known)-1].at.UnixMilli())
	}
	entries, err := f.own.Client.XRange(ctx, f.dayKey(), from, "+").Result()
	if err != nil {
		return nil, err
	}
	newer := make(day, 0, len(entries))
	for _, entry := range entries {
		if s, ok := sampleOfEntry(entry); ok {
			newer = append(newer, s)
		}
	}
	all := append(known[:len(known):len(known)], newer...)
	return all[max(0, len(all)-dayMinutes):], nil
}

// sampleOfEntry reads a sample, and reports whether it is one.
func sampleOfEntry(entry redis.XMessage) (s sample, ok bool) {
	text, _ := entry.Values["s"].(string)
	stamp, _, _ := strings.Cut(entry.ID, "-")
	ms, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || json.Unmarshal([]byte(text), &s) != nil {
		return s, false
	}
	s.at = time.UnixMilli(ms)
	return s, true
}

// documents returns how many documents there were in a minute.
func (s sample) documents() (all int64) {
	for _, n := range s.Documents {
		all += n
	}
	return all
}

// mark is a point where operators changed something.
type mark struct {
	at   time.Time
	says string
}
