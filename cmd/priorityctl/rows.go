package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/docpriority/priority"
)

// row is a row of a policy's table: the counts of one level, both included.
type row struct {
	level priority.Level
	least int64 // math.MinInt64: whatever is below
	most  int64 // math.MaxInt64: whatever is above
}

func rowOf(policy priority.Policy, level priority.Level) row {
	r := row{level, math.MinInt64, math.MaxInt64}
	if i := int(level) - 1; i < len(policy.Thresholds) {
		r.least = policy.Thresholds[i]
	}
	if i := int(level) - 2; i >= 0 {
		r.most = policy.Thresholds[i] - 1
	}
	return r
}

func rows(policy priority.Policy) []row {
	all := make([]row, policy.Last())
	for i := range all {
		all[i] = rowOf(policy, priority.First+priority.Level(i))
	}
	return all
}

// condition is the row as the README's table has it.
func (r row) condition() string {
	switch {
	case r.most < math.MaxInt64:
		return fmt.Sprintf("count < %d", r.most+1)
	case r.least > math.MinInt64:
		return fmt.Sprintf("count ≥ %d", r.least)
	}
	return "any count"
}

// documents are a new customer's documents that get the level.
func (r row) documents() string {
	// The first document has count 0, the second -1.
	first, last := max(1-r.most, 1), 1-r.least
	switch {
	case r.least == math.MinInt64:
		return group(first) + " and on"
	case last < first:
		return "none"
	case last == first:
		return group(first)
	}
	return group(first) + "–" + group(last)
}

// shown makes a customer, who is any bytes, fit for a terminal and for a column:
// what is not plain is quoted as in Go.
func shown(customer string) string {
	plain := utf8.ValidString(customer) && !strings.HasPrefix(customer, `"`)
	for _, r := range customer {
		plain = plain && unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	if plain {
		return customer
	}
	return strconv.QuoteToGraphic(customer)
}

// name is a customer in JSON.
type name struct {
	Customer string `json:"customer"`
	// Base64 has the bytes of a customer that is no UTF-8, which JSON cannot hold.
	Base64 string `json:"customer_base64,omitempty"`
}

func nameOf(customer string) name {
	if utf8.ValidString(customer) {
		return name{Customer: customer}
	}
	return name{Customer: strings.ToValidUTF8(customer, "\uFFFD"), Base64: base64.StdEncoding.EncodeToString([]byte(customer))}
}

// writeJSON writes an object in one line.
func writeJSON(w io.Writer, object any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(object)
}

// group writes a number with a comma at the thousands.
func group(n int64) string {
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

// span writes a duration as a person would: to the second, but for short ones.
func span(d time.Duration) string {
	unit := time.Second
	switch {
	case d < time.Millisecond:
		unit = time.Microsecond
	case d < 10*time.Second:
		unit = time.Millisecond
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

// long writes milliseconds as span does, but hours without seconds.
func long(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	return span(d)
}

// amount is "1 document", "2.5 documents" or "3,000 documents", in three digits
// where it is not whole.
func amount(x float64, noun string) string {
	if x >= 100 {
		return plural(int64(math.Round(x)), noun)
	}
	text := strconv.FormatFloat(x, 'g', 3, 64)
	if text == "1" {
		return "1 " + noun
	}
	return text + " " + noun + "s"
}

// plural is "1 document" or "3 documents".
func plural(n int64, noun string) string {
	if n == 1 || n == -1 {
		return group(n) + " " + noun
	}
	return group(n) + " " + noun + "s"
}
