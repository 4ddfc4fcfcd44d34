package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

var (
	// ErrCorrupt: the key named in the message holds something that this module does not
	// write.
	ErrCorrupt = errors.New("control: corrupt")

	// ErrNewer: a later version of this module wrote what the message names.
	ErrNewer = errors.New("control: written by a later version of the module")
)

// Item is one setting of operators.
type Item[T any] struct {
	Value   T         `json:"value"`
	Version int64     `json:"version"`        // goes up with each change of anything
	At      time.Time `json:"at"`             // when it was set, by Redis's clock
	Until   time.Time `json:"until,omitzero"` // when it ends; zero: it does not
	By      string    `json:"by"`
	Why     string    `json:"why"`
}

// stored is an item as lua/change.lua stores it. Either Override or Rules is set, or
// neither if the rules were withdrawn.
type stored struct {
	Version int64 `json:"version,omitempty"`
	At      int64 `json:"at,omitempty"`    // in milliseconds of Redis's time
	Until   int64 `json:"until,omitempty"` // likewise; 0: no end

	By       string             `json:"by"`
	Why      string             `json:"why"`
	Override *priority.Override `json:"override,omitempty"`
	Rules    *Rules             `json:"rules,omitempty"`
}

// encode returns a value as JSON that people can read in Redis: it leaves "<=3" as
// it is.
func encode(value any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// read reads a stored item. An error wraps [ErrCorrupt] or [ErrNewer] and names the key.
func read(key, text string) (stored, error) {
	var format struct{ Format int64 }
	var item stored
	err := json.Unmarshal([]byte(text), &format)
	if err == nil && format.Format > 1 {
		return item, fmt.Errorf("%w: %q has format %d", ErrNewer, key, format.Format)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &item)
	}
	if err == nil && (item.Version < 1 || item.At < 1 || item.Until < 0) {
		err = errors.New("it is not an item of lua/change.lua")
	}
	if err != nil {
		return item, fmt.Errorf("%w: %q: %w", ErrCorrupt, key, err)
	}
	return item, nil
}

// itemOf returns a stored item with its value.
func itemOf[T any](s stored, value T) Item[T] {
	item := Item[T]{Value: value, Version: s.Version, At: time.UnixMilli(s.At), By: s.By, Why: s.Why}
	if s.Until > 0 {
		item.Until = time.UnixMilli(s.Until)
	}
	return item
}

// rulesOf reads the key of the rules. Its value is nil if they were withdrawn.
func rulesOf(key, text string) (*Item[*Rules], error) {
	s, err := read(key, text)
	if err != nil {
		return nil, err
	}
	item := itemOf(s, s.Rules)
	return &item, nil
}

// overrideOf reads the item of a customer's override.
func overrideOf(key, text string) (Item[priority.Override], error) {
	s, err := read(key, text)
	if err == nil && s.Override == nil {
		err = fmt.Errorf("%w: %q has an item without an override", ErrCorrupt, key)
	}
	if err != nil {
		return Item[priority.Override]{}, err
	}
	return itemOf(s, *s.Override), nil
}

// given returns the rules of an item, nil if they were withdrawn.
func given(item *Item[*Rules]) *Item[Rules] {
	if item == nil || item.Value == nil {
		return nil
	}
	return &Item[Rules]{*item.Value, item.Version, item.At, item.Until, item.By, item.Why}
}

// head tells changes apart.
type head struct {
	version, at int64
	id          string
}

// headOf reads the key of the version: "<version> <at> <token>".
func headOf(key, text string) (head, error) {
	if text == "" {
		return head{}, nil
	}
	parts := strings.Split(text, " ")
	if len(parts) == 3 {
		version, err1 := strconv.ParseInt(parts[0], 10, 64)
		at, err2 := strconv.ParseInt(parts[1], 10, 64)
		if errors.Join(err1, err2) == nil && version > 0 {
			return head{version, at, parts[2]}, nil
		}
	}
	return head{}, fmt.Errorf("%w: %q holds %.60q, not a version, a time and a token", ErrCorrupt, key, text)
}

// newer reports whether a change came after another one. After a failover two changes
// may have the same version.
func (h head) newer(than head) bool {
	return h.version > than.version || h.version == than.version && h.id != than.id || h.at > than.at
}
