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

	// Kind says what was changed: "policy", "override", "reset" (a customer's numbers
	// were reset), "forget" (a customer was forgotten; the entry does not say who), or
	// "import"; "corrupt": the entry cannot be read.
	Kind string `json:"kind"`

	// Customer is the customer of an override or a reset, else empty.
	Customer string `json:"customer,omitempty"`

	// Applied are the rules that were set or withdrawn, for the kind "policy"; else nil.
	Applied *Applied `json:"applied,omitempty"`

	// Override has the bounds that were set, and Until is when they end; the zero
	// Override: it was ended.
	Override priority.Override `json:"override,omitzero"`
	Until    time.Time         `json:"until,omitzero"`
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

// logPage is how many entries one command reads: rules may be long.
const logPage = 100

func (a *Admin) logPage(ctx context.Context, from string, most int) ([]Entry, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	cmd := redis.NewXMessageSliceCmd(ctx, "xrevrange", a.keys.log, from, "-", "count", most)
	_ = a.client.Process(ctx, cmd)
	messages, err := cmd.Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("control: cannot read %q: %w", a.keys.log, err)
	}
	entries := make([]Entry, len(messages))
	for i, message := range messages {
		entries[i] = entryOf(message)
	}
	return entries, nil
}

// History returns the fleet's current and earlier rules, as far as the log has them, newest
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
	case "policy":
		var read item
		read, err = parse("the log", field("value"))
		err = errors.Join(err, read.invalid)
		e.Applied = &read.Applied
	case "override":
		if value := field("value"); value != "" {
			err = e.Override.UnmarshalText([]byte(value))
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
		add := []any{"xadd", a.keys.log, "maxlen", "~", logEntries, "*", "kind", kind, "by", change.By, "why", change.Why}
		for _, field := range fields {
			add = append(add, field)
		}
		pipe := a.client.Pipeline()
		_ = pipe.Process(ctx, redis.NewStringCmd(ctx, add...))
		_ = pipe.Process(ctx, redis.NewIntCmd(ctx, "xtrim", a.keys.log, "minid", "=", now.Add(-LogAge).UnixMilli()))
		_ = pipe.Process(ctx, redis.NewBoolCmd(ctx, "pexpire", a.keys.log, LogAge.Milliseconds()))
		_, err = pipe.Exec(ctx)
	}
	switch {
	case err == nil:
		return nil
	case kind == "reset", kind == "import": // these are logged beforehand
		return fmt.Errorf("control: writing to the log %q failed: %w", a.keys.log, err)
	}
	return fmt.Errorf("control: it is done, but writing to the log %q failed: %w", a.keys.log, err)
}
