package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Entry is a line of the log: one change.
type Entry struct {
	Version int64     `json:"version"` // of the document since this change
	At      time.Time `json:"at"`      // by Redis's clock
	By      string    `json:"by"`
	Why     string    `json:"why"`

	// Kind is what was changed: "policy", "override", or "reset", whose count was reset
	// and nothing else.
	Kind string `json:"kind"`

	// Customer is whose override or reset it is, else empty.
	Customer string `json:"customer,omitempty"`

	// Old and New are the values before and after in JSON, empty where there was or is
	// none: a [Rules] or an [Override].
	Old json.RawMessage `json:"old,omitempty"`
	New json.RawMessage `json:"new,omitempty"`

	// Until is when an override ends; zero: never.
	Until time.Time `json:"until,omitzero"`

	item   string // by its name
	stored string // as lua/change.lua stores it
	token  int64
	after  int64 // the token of the change before, 0 if there was no document
}

func entryOf(message redis.XMessage) (Entry, error) {
	field := func(name string) string { text, _ := message.Values[name].(string); return text }
	var numbers [5]int64
	id, _, _ := strings.Cut(message.ID, "-")
	for i, text := range []string{id, field("at"), field("end"), field("token"), field("after")} {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return Entry{}, fmt.Errorf("the entry %q is not one of lua/change.lua", message.ID)
		}
		numbers[i] = n
	}
	e := Entry{
		Version: numbers[0], At: time.UnixMilli(numbers[1]), By: field("who"), Why: field("why"),
		item: field("item"), token: numbers[3], after: numbers[4],
	}
	e.Kind, e.Customer, _ = strings.Cut(e.item, ":")
	if numbers[2] > 0 {
		e.Until = time.UnixMilli(numbers[2])
	}
	if text := field("new"); text != "" {
		e.stored = fmt.Sprintf("%d %d %d %s", numbers[0], numbers[1], numbers[2], text)
	}
	var err1, err2 error
	e.Old, err1 = valueOf(field("old"))
	e.New, err2 = valueOf(field("new"))
	if err := errors.Join(err1, err2); err != nil {
		return Entry{}, fmt.Errorf("the entry %q: %w", message.ID, err)
	}
	return e, nil
}

// valueOf returns the value of what is stored, without who set it and why.
func valueOf(stored string) (json.RawMessage, error) {
	if stored == "" {
		return nil, nil
	}
	var v value[json.RawMessage]
	err := json.Unmarshal([]byte(stored), &v)
	return v.Value, err
}
