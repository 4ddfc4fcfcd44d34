package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// Entry is a line of the log: one change.
type Entry struct {
	ID  string    `json:"id"`
	At  time.Time `json:"at"` // by Redis's clock
	By  string    `json:"by"`
	Why string    `json:"why"`

	// Kind says what was changed: "policies", "override", "reset" (a customer's numbers
	// were reset), "forget" (a customer was forgotten; the entry does not say who), or
	// "import"; "corrupt": the entry cannot be read.
	Kind string `json:"kind"`

	// Customer is the customer of an override or a reset, else empty.
	Customer string `json:"customer,omitempty"`

	// Applied are the policies that were set or withdrawn, for the kind "policies"; else nil.
	Applied *Applied `json:"applied,omitempty"`

	// Bounds are those of the override that was set, and Until is when it ends; zero: it was
	// ended.
	Bounds priority.Bounds `json:"override,omitzero"`
	Until  time.Time       `json:"until,omitzero"`
}

// Log returns up to most changes, newest first, starting at the entry with the id from;
// empty: the newest. The log keeps about 10,000 changes, each for [LogAge].
func (a *Admin) Log(ctx context.Context, from string, most int) ([]Entry, error) {
	if most < 1 || most > logEntries {
		return nil, fmt.Errorf("%w option: %d entries, not 1 to %d", priority.ErrInvalid, most, logEntries)
	}
	var entries []Entry
	for len(entries) < most {
		page, err := a.logPage(ctx, cmp.Or(from, "+"), min(most-len(entries), logPage))
		if entries = append(entries, page...); err != nil || len(page) < logPage {
			return entries, err
		}
		from = "(" + page[len(page)-1].ID
	}
	return entries, nil
}

// logPage is how many entries one command reads: policies may be long.
const logPage = 100

func (a *Admin) logPage(ctx context.Context, from string, most int) ([]Entry, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	messages, err := a.client.XRevRangeN(ctx, a.keys.Log(), from, "-", int64(most)).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("control: cannot read %q: %w", a.keys.Log(), err)
	}
	entries := make([]Entry, len(messages))
	for i, message := range messages {
		entries[i] = entryOf(message)
	}
	return entries, nil
}

// History returns the fleet's current and earlier policies, as far as the log has them, newest
// first.
func (a *Admin) History(ctx context.Context) ([]Applied, error) {
	entries, err := a.Log(ctx, "", logEntries)
	var history []Applied
	for _, entry := range entries {
		if entry.Applied != nil {
			history = append(history, *entry.Applied)
		}
	}
	return history, err
}

// entryOf reads an entry. One that cannot be read has the kind "corrupt".
func entryOf(message redis.XMessage) Entry {
	field := func(name string) string { text, _ := message.Values[name].(string); return text }
	stamp, _, _ := strings.Cut(message.ID, "-")
	at, _ := strconv.ParseInt(stamp, 10, 64)
	e := Entry{ID: message.ID, At: time.UnixMilli(at), By: field("by"), Why: field("why"), Kind: field("kind"), Customer: field("customer")}
	var err error
	switch e.Kind {
	case "policies":
		var read stored
		read, err = parse("the log", field("value"))
		err = errors.Join(err, read.invalid)
		e.Applied = &read.Applied
	case "override":
		if value := field("value"); value != "" {
			err = e.Bounds.UnmarshalText([]byte(value))
			until, _ := strconv.ParseInt(field("until"), 10, 64)
			e.Until = timeOf(until)
		}
	case "reset", "forget", "import":
	default:
		err = errors.New("unknown kind")
	}
	if err != nil {
		return Entry{ID: e.ID, At: e.At, Kind: "corrupt", Why: fmt.Sprintf("this entry of the log cannot be read: %v", err)}
	}
	return e
}

// note writes an entry to the log: pairs of names and values. If now is zero, it asks Redis
// for the time.
func (a *Admin) note(ctx context.Context, now time.Time, change Change, kind string, fields ...string) (err error) {
	if now.IsZero() {
		now, err = a.now(ctx)
	}
	if err == nil {
		key, values := a.keys.Log(), append([]string{"kind", kind, "by", change.By, "why", change.Why}, fields...)
		_, err = a.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, MaxLen: logEntries, Approx: true, Values: values})
			pipe.XTrimMinID(ctx, key, stamp(now.Add(-LogAge)))
			pipe.PExpire(ctx, key, LogAge)
			return nil
		})
	}
	switch {
	case err == nil:
		return nil
	case kind == "import": // it is logged beforehand
		return fmt.Errorf("control: writing to the log %q failed: %w", a.keys.Log(), err)
	}
	return fmt.Errorf("%w: writing to %q failed: %w", ErrNotLogged, a.keys.Log(), err)
}
