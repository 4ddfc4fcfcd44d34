package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// format is that of the documents that this package knows.
const format = 1

// Item is one thing that operators have set.
type Item[T any] struct {
	Value   T         `json:"value"`
	Version int64     `json:"version"`        // of the document when it was set
	At      time.Time `json:"at"`             // when that was, by Redis's clock
	Until   time.Time `json:"until,omitzero"` // when it ends; zero: it does not
	By      string    `json:"by"`
	Why     string    `json:"why"`
}

// Document is all that operators have set. It does not change any more.
type Document struct {
	// Version goes up with each change; 0: nothing was ever set.
	Version int64

	// Rules are the fleet's policies; nil: those of the workers' own options.
	Rules *Item[Rules]

	// Overrides are those of customers. The map may not be changed.
	Overrides map[string]Item[Override]

	token int64
}

// clone returns a document that may be changed.
func (d *Document) clone() *Document {
	next := *d
	next.Overrides = maps.Clone(d.Overrides)
	return &next
}

// prune removes overrides that are over.
func (d *Document) prune(now time.Time) {
	maps.DeleteFunc(d.Overrides, func(_ string, item Item[Override]) bool { return !now.Before(item.Until) })
}

// set sets an item of a document that nobody else knows yet, or removes it where
// nothing is stored. An error wraps [ErrCorruptDocument].
func (d *Document) set(name, stored string) error {
	kind, customer, _ := strings.Cut(name, ":")
	var err error
	switch {
	case kind == "policy" && customer == "":
		d.Rules, err = itemOf[Rules](stored)
	case kind == "override":
		err = d.setOverride(customer, stored)
	}
	if err != nil {
		return fmt.Errorf("%w: the item %.200q: %w", ErrCorruptDocument, name, err)
	}
	return nil
}

func (d *Document) setOverride(customer, stored string) error {
	item, err := itemOf[Override](stored)
	switch {
	case err != nil:
		return err
	case item == nil:
		delete(d.Overrides, customer)
		return nil
	case d.Overrides == nil:
		d.Overrides = make(map[string]Item[Override])
	}
	d.Overrides[customer] = *item
	return nil
}

// value is an item's value as it is stored.
type value[T any] struct {
	Value T      `json:"value"`
	By    string `json:"by"`
	Why   string `json:"why"`
}

// itemOf reads an item as lua/change.lua stores it; nothing is nil.
func itemOf[T any](stored string) (*Item[T], error) {
	if stored == "" {
		return nil, nil
	}
	parts := strings.SplitN(stored, " ", 4)
	if len(parts) != 4 {
		return nil, errors.New("it is not one of lua/change.lua")
	}
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%.40q is not a number", parts[i])
		}
		numbers[i] = n
	}
	if parts[3] == "" {
		return nil, nil
	}
	var v value[T]
	decoder := json.NewDecoder(strings.NewReader(parts[3]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	if override, ok := any(v.Value).(Override); ok {
		if err := override.validate(maxLevels); err != nil {
			return nil, err
		}
	}
	item := &Item[T]{Value: v.Value, Version: numbers[0], At: time.UnixMilli(numbers[1]), By: v.By, Why: v.Why}
	if numbers[2] > 0 {
		item.Until = time.UnixMilli(numbers[2])
	}
	return item, nil
}

// Options returns what the options of a worker become by what operators have set. An
// error wraps [priority.ErrInvalidPolicy]: the worker's queue has fewer levels, say.
func (d *Document) Options(own priority.RedisOptions) (priority.RedisOptions, error) {
	if d.Rules == nil {
		return own, nil
	}
	rules := d.Rules.Value
	if err := rules.Validate(own.Policy.Last()); err != nil {
		return own, fmt.Errorf("version %d of the policy: %w", d.Rules.Version, err)
	}
	own.Policy, own.Tiers = rules.Policy, rules.Tiers
	if own.TierOf == nil {
		own.TierOf = func(string) string { return "" }
	}
	return own, nil
}
