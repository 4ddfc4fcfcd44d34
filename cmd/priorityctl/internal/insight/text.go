package insight

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Group writes a number with a comma at the thousands.
func Group(n int64) string {
	digits := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(digits) - 3; i > start; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Plural is "1 document" or "3 documents".
func Plural(n int64, noun string) string {
	if n == 1 || n == -1 {
		return Group(n) + " " + noun
	}
	return Group(n) + " " + noun + "s"
}

// Span writes a duration as a person would: to the second, unless it is short, and hours
// without seconds.
func Span(d time.Duration) string {
	unit := time.Second
	switch {
	case d < time.Millisecond:
		unit = time.Microsecond
	case d < 10*time.Second:
		unit = time.Millisecond
	case d >= time.Hour:
		unit = time.Minute
	}
	text := d.Round(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Wrap breaks a text into lines of at most that many columns.
func Wrap(text string, columns int) string {
	var wrapped strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > columns:
			wrapped.WriteByte('\n')
			column = 0
		default:
			wrapped.WriteByte(' ')
			column++
		}
		wrapped.WriteString(word)
		column += n
	}
	return wrapped.String()
}

// Moment writes a time that people everywhere read alike.
func Moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

// Shown makes a customer, which is any bytes, fit for a terminal and for a column: it
// quotes all but plain text as in Go.
func Shown(customer string) string {
	plain := utf8.ValidString(customer) && !strings.HasPrefix(customer, `"`)
	for _, r := range customer {
		plain = plain && unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	if plain {
		return customer
	}
	return strings.ReplaceAll(strconv.QuoteToGraphic(customer), "  ", ` \x20`) // Wrap would join the spaces
}

// Quoted quotes a person's text as in Go, so that a terminal does not obey it.
func Quoted(text string) string { return strconv.QuoteToGraphic(text) }

// typable reports whether a text reads the same in a line of a terminal.
func typable(text string) bool {
	for _, r := range text {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) && r != ' ' {
			return false
		}
	}
	return utf8.ValidString(text) && !strings.Contains(text, "  ")
}

// ShellQuoted writes an argument as a POSIX shell reads it.
func ShellQuoted(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@/-") == "" && text[0] != '-' {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
