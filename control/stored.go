package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
)

// Applied are policies that operators have set, or withdrawn.
type Applied struct {
	Version  int64              `json:"version"` // goes up with each change; 0: no policies were ever set
	At       time.Time          `json:"at"`      // by Redis's clock
	By       string             `json:"by"`
	Why      string             `json:"why"`
	Policies *priority.Policies `json:"policies"` // nil: the workers' own options apply
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

// stored is the content of the policies' key.
type stored struct {
	Applied
	changed int64 // in milliseconds of Redis's time
	invalid error // why the policies cannot be used; else nil
}

// isAfter reports whether policies were set after other ones.
func (s stored) isAfter(other stored) bool {
	return s.Version > other.Version || s.changed > other.changed
}

// isSame reports whether two come from the same change.
func (s stored) isSame(other stored) bool {
	return s.Version == other.Version && s.changed == other.changed
}

// parse reads what lua/policies.lua wrote to a key. An error wraps [ErrCorrupt] or [ErrNewer].
func parse(key, text string) (stored, error) {
	var content struct {
		Format, Version, Changed, At int64
		By, Why                      string
		Policies                     json.RawMessage
	}
	var format struct{ Format int64 }
	if err := json.Unmarshal([]byte(text), &format); err == nil && format.Format > 1 {
		return stored{}, refusal{Newer, "", fmt.Errorf("%w: %q has format %d", ErrNewer, key, format.Format)}
	}
	err := json.Unmarshal([]byte(text), &content)
	if err == nil && (content.Version < 1 || content.Version >= 1e13 || content.Changed < 1) {
		err = errors.New("not written by policies.lua")
	}
	if err != nil {
		return stored{}, refusal{Corrupt, "", fmt.Errorf("%w: %q: %w", ErrCorrupt, key, err)}
	}
	read := stored{changed: content.Changed, Applied: Applied{
		Version: content.Version, At: timeOf(content.At), By: content.By, Why: content.Why,
	}}
	if text := strings.TrimSpace(string(content.Policies)); text != "" && text != "null" {
		read.Policies = new(priority.Policies)
		if read.invalid = read.Policies.UnmarshalJSON([]byte(text)); read.invalid != nil {
			read.Policies = nil
		}
	}
	return read, nil
}

// invalid says that policies of a version cannot be used.
func invalid(version int64, err error) error {
	return refusal{
		Invalid, strings.TrimPrefix(err.Error(), priority.ErrInvalid.Error()+" policy: "),
		fmt.Errorf("version %d of the policies: %w", version, err),
	}
}

// head is the beginning of the policies' text, which lua/follow.lua compares.
var head = regexp.MustCompile(`^{"version":\d+,"changed":\d+`)

// encode returns a value as JSON that people can read in Redis, with "<=3" unescaped.
func encode(value any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// timeOf returns a time in milliseconds; zero: JSON cannot represent it.
func timeOf(ms int64) time.Time {
	const year9999 = 253402300799000
	if ms <= 0 || ms > year9999 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
