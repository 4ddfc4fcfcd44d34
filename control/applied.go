package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
)

// Applied are rules that operators have set, or withdrawn.
type Applied struct {
	Version int64     `json:"version"` // goes up with each change; 0: no rules were ever set
	At      time.Time `json:"at"`      // by Redis's clock
	By      string    `json:"by"`
	Why     string    `json:"why"`
	Rules   *Rules    `json:"rules"` // nil: the workers' own options apply
}

// Change says who makes a change, and why. The log keeps it.
type Change struct {
	By  string // who, in UTF-8: 1 to MaxByBytes bytes
	Why string // why, in UTF-8: 1 to MaxWhyBytes bytes
}

const (
	MaxByBytes  = 200
	MaxWhyBytes = 1000
)

func (c Change) validate() error {
	for _, text := range []struct {
		name, text string
		most       int
	}{{"By", c.By, MaxByBytes}, {"Why", c.Why, MaxWhyBytes}} {
		if n := len(text.text); n < 1 || n > text.most || !utf8.ValidString(text.text) {
			return fmt.Errorf("%w option: %s %.80q is not UTF-8 of 1 to %d bytes", priority.ErrInvalid, text.name, text.text, text.most)
		}
	}
	return nil
}

// item is the content of the rules' key.
type item struct {
	Applied
	changed int64 // in milliseconds of Redis's time
	invalid error // why the rules cannot be used; else nil
}

// newer reports whether an item was set after another one.
func (i item) newer(than item) bool { return i.Version > than.Version || i.changed > than.changed }

// is reports whether two items come from the same change.
func (i item) is(other item) bool { return i.Version == other.Version && i.changed == other.changed }

// parse reads what lua/rules.lua wrote to a key. An error wraps [ErrCorrupt] or [ErrNewer].
func parse(key, text string) (item, error) {
	var stored struct {
		Format, Version, Changed, At int64
		By, Why                      string
		Rules                        json.RawMessage
	}
	var format struct{ Format int64 }
	if err := json.Unmarshal([]byte(text), &format); err == nil && format.Format > 1 {
		return item{}, fmt.Errorf("%w: %q has format %d", ErrNewer, key, format.Format)
	}
	err := json.Unmarshal([]byte(text), &stored)
	if err == nil && (stored.Version < 1 || stored.Version >= 1e13 || stored.Changed < 1) {
		err = errors.New("not written by rules.lua")
	}
	if err != nil {
		return item{}, fmt.Errorf("%w: %q: %w", ErrCorrupt, key, err)
	}
	read := item{changed: stored.Changed, Applied: Applied{
		Version: stored.Version, At: timeOf(stored.At), By: stored.By, Why: stored.Why,
	}}
	if rules := strings.TrimSpace(string(stored.Rules)); rules != "" && rules != "null" {
		read.Rules = new(Rules)
		if read.invalid = read.Rules.UnmarshalJSON([]byte(rules)); read.invalid != nil {
			read.Rules = nil
		}
	}
	return read, nil
}

var head = regexp.MustCompile(`^{"version":\d+,"changed":\d+`)

// headOf returns the beginning of the rules' text, which lua/follow.lua compares. It is
// empty only if there are no rules.
func headOf(text string) string {
	if text == "" {
		return ""
	}
	return cmp.Or(head.FindString(text), "junk")
}

// encode returns a value as JSON that people can read in Redis, with "<=3" unescaped.
func encode(value any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}
