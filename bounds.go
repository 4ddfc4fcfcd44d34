package priority

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds are the earliest and the latest level that an operator's override leaves to a
// customer's documents, whatever the customer has sent. The documents are still counted.
// Package control sets them.
type Bounds struct {
	// If both are equal, the level is fixed. Earliest 0 means First, and Latest 0 the
	// queue's last level. The zero Bounds bound nothing.
	Earliest, Latest Level
}

// Level returns a level within the bounds, in a queue whose last level is last.
func (b Bounds) Level(level, last Level) Level {
	if b.Latest > 0 {
		level = min(level, b.Latest)
	}
	return min(max(level, b.Earliest, First), last)
}

// mostBound is the latest level that the scripts read in an override.
const mostBound = 999

// MarshalText returns how the override begins in Redis: "=1" for level 1, ">=7"
// for level 7 or a later one, "<=3" for level 3 or an earlier one. An error wraps
// [ErrInvalid].
func (b Bounds) MarshalText() ([]byte, error) {
	switch {
	case b.Earliest < 0 || b.Latest < 0 || max(b.Earliest, b.Latest) > mostBound:
	case b == Bounds{}:
	case b.Earliest == b.Latest:
		return fmt.Appendf(nil, "=%d", b.Latest), nil
	case b.Latest == 0:
		return fmt.Appendf(nil, ">=%d", b.Earliest), nil
	case b.Earliest == 0:
		return fmt.Appendf(nil, "<=%d", b.Latest), nil
	}
	return nil, fmt.Errorf("%w option: an override to level %d at the earliest and %d at the latest", ErrInvalid, b.Earliest, b.Latest)
}

// UnmarshalText reads what MarshalText returns, and ignores what follows a space. An error
// wraps [ErrInvalid].
func (b *Bounds) UnmarshalText(text []byte) error {
	word, _, _ := strings.Cut(string(text), " ")
	digits := strings.TrimLeft(word, "<>=")
	n, err := strconv.ParseUint(digits, 10, 16)
	if level := Level(n); err == nil && digits[0] != '0' && level <= mostBound {
		switch strings.TrimSuffix(word, digits) {
		case "=":
			*b = Bounds{level, level}
			return nil
		case ">=":
			*b = Bounds{Earliest: level}
			return nil
		case "<=":
			*b = Bounds{Latest: level}
			return nil
		}
	}
	return fmt.Errorf("%w option: %.40q is not an override such as =1, >=7 or <=3", ErrInvalid, text)
}
