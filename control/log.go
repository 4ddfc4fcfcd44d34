package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// Entry is a line of the log: one change.
type Entry struct {
	Version int64     `json:"version"` // since this change
	At      time.Time `json:"at"`      // by Redis's clock
	By      string    `json:"by"`
	Why     string    `json:"why"`

	// Kind says what was changed: "policy", "override", "reset" (a customer's numbers
	// were reset), or "forget" (a customer was forgotten; the entry does not say who);
	// "corrupt": the entry cannot be read.
	Kind string `json:"kind"`

	// Customer is the customer of an override or a reset, else empty.
	Customer string `json:"customer,omitempty"`

	// Old and New are the values before and after, a [Rules] or a [priority.Override]
	// as JSON; empty if there was no value.
	Old json.RawMessage `json:"old,omitempty"`
	New json.RawMessage `json:"new,omitempty"`

	// Until is when an override ends; zero: never.
	Until time.Time `json:"until,omitzero"`
}

// Log returns the last changes, newest first, up to the version upTo (0: up to the
// last change), and at most that many. About 10,000 changes are kept.
func (a *Admin) Log(ctx context.Context, upTo int64, most int) ([]Entry, error) {
	if most < 1 || most > logEntries {
		return nil, fmt.Errorf("%w option: %d entries, not 1 to %d", priority.ErrInvalid, most, logEntries)
	}
	last := "+"
	if upTo > 0 {
		last = strconv.FormatInt(upTo, 10)
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	_, reply, err := a.ask(ctx, "XREVRANGE", a.keys.log, last, "-", "COUNT", most)
	if err != nil {
		return nil, err
	}
	list, _ := reply.([]any)
	entries := make([]Entry, len(list))
	for i, each := range list {
		entries[i] = entryOf(each)
	}
	return entries, nil
}

// entryOf reads {id, {field, value, …}}. An entry that cannot be read has the kind
// "corrupt".
func entryOf(reply any) Entry {
	var id string
	var texts []string
	if pair, _ := reply.([]any); len(pair) == 2 {
		id, _ = pair[0].(string)
		texts = textsOf(pair[1])
	}
	fields := make(map[string]string, len(texts)/2)
	for i := 0; i+1 < len(texts); i += 2 {
		fields[texts[i]] = texts[i+1]
	}
	number, _, _ := strings.Cut(id, "-")
	version, _ := strconv.ParseInt(number, 10, 64)
	at, err := strconv.ParseInt(fields["at"], 10, 64)
	e := Entry{Version: version, At: time.UnixMilli(at), By: fields["who"], Why: fields["why"]}
	if until, _ := strconv.ParseInt(fields["until"], 10, 64); until > 0 {
		e.Until = time.UnixMilli(until)
	}
	e.Kind, e.Customer, _ = strings.Cut(fields["item"], ":")
	var ok [2]bool
	e.Old, ok[0] = valueOf(fields["old"])
	e.New, ok[1] = valueOf(fields["new"])
	if err != nil || version < 1 || e.Kind == "" || ok != [2]bool{true, true} {
		return Entry{Version: version, Kind: "corrupt", Why: fmt.Sprintf("the entry %q of the log cannot be read", id)}
	}
	return e
}

// valueOf returns the value of a stored item, without who set it and why.
func valueOf(stored string) (value json.RawMessage, ok bool) {
	var item struct{ Override, Rules json.RawMessage }
	if stored == "" {
		return nil, true
	}
	if err := json.Unmarshal([]byte(stored), &item); err != nil {
		return nil, false
	}
	if value = append(item.Override, item.Rules...); string(value) == "null" {
		value = nil
	}
	return value, true
}
