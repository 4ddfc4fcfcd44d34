package priority

import (
	"fmt"
	"strings"
)

// Override bounds the levels of one customer's documents, whatever the customer has
// sent. Operators set it with package control; the documents are still counted.
type Override struct {
	// Earliest and Latest are the bounds. If they are equal, the level is fixed. Earliest 0
	// means First, and Latest 0 the queue's last level. The zero Override bounds nothing.
	Earliest, Latest Level
}

// Level applies the override to a level, in a queue whose last level is last.
func (o Override) Level(level, last Level) Level {
	if o.Latest > 0 {
		level = min(level, o.Latest)
	}
	return min(max(level, o.Earliest, First), last)
}

// MarshalText returns how the override begins in Redis: "=1" for level 1, ">=7"
// for level 7 or a later one, "<=3" for level 3 or an earlier one. An error wraps
// [ErrInvalid].
func (o Override) MarshalText() ([]byte, error) {
	const most = 999
	switch {
	case o.Earliest < 0 || o.Latest < 0 || o.Earliest > most || o.Latest > most:
	case o.Earliest == 0 && o.Latest == 0:
	case o.Earliest == o.Latest:
		return fmt.Appendf(nil, "=%d", o.Latest), nil
	case o.Latest == 0:
		return fmt.Appendf(nil, ">=%d", o.Earliest), nil
	case o.Earliest == 0:
		return fmt.Appendf(nil, "<=%d", o.Latest), nil
	}
	return nil, fmt.Errorf("%w option: an override to level %d at the earliest and %d at the latest", ErrInvalid, o.Earliest, o.Latest)
}

// UnmarshalText reads what MarshalText returns, and ignores what follows a space. An error
// wraps [ErrInvalid].
func (o *Override) UnmarshalText(text []byte) error {
	word, _, _ := strings.Cut(string(text), " ")
	for _, form := range []struct {
		format string
		of     func(Level) Override
	}{
		{"=%d", func(l Level) Override { return Override{l, l} }},
		{">=%d", func(l Level) Override { return Override{Earliest: l} }},
		{"<=%d", func(l Level) Override { return Override{Latest: l} }},
	} {
		var level Level
		if _, err := fmt.Sscanf(word, form.format, &level); err != nil {
			continue
		}
		read := form.of(level)
		if again, err := read.MarshalText(); err == nil && string(again) == word {
			*o = read
			return nil
		}
	}
	return fmt.Errorf("%w option: %.40q is not an override such as =1, >=7 or <=3", ErrInvalid, text)
}
