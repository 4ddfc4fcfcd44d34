package census

import (
	"strings"

	"github.com/docpriority/priority"
)

// The suffixes of a customer's keys.
const (
	countEnd    = "}:count"
	pendingEnd  = "}:pending"
	overrideEnd = "}:override"
)

// Pattern returns the glob that matches the keys of all customers of a prefix, and few
// others.
func Pattern(prefix string) string {
	return globEscaper.Replace(prefix) + ":{*}:*"
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// CustomerOf returns the customer whose key this is. It is false for a key that the
// module never writes.
func CustomerOf(prefix, key string) (customer string, ok bool) {
	customer, _, ok = parse(prefix, key)
	return customer, ok
}

// parse also returns the key's suffix.
func parse(prefix, key string) (customer, end string, ok bool) {
	body, ok := strings.CutPrefix(key, prefix+":{")
	if !ok {
		return "", "", false
	}
	for _, end = range []string{countEnd, pendingEnd, overrideEnd} {
		if customer, ok := strings.CutSuffix(body, end); ok {
			customer, ok = unescaped(customer)
			return customer, end, ok
		}
	}
	return "", "", false
}

// unescaped returns the customer of an escaped text.
func unescaped(text string) (customer string, ok bool) {
	if strings.Contains(text, "}") {
		return "", false
	}
	for rest := text; ; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			break
		}
		rest = rest[i:]
		if !strings.HasPrefix(rest, "%25") && !strings.HasPrefix(rest, "%7D") {
			return "", false
		}
		rest = rest[3:]
	}
	customer = unescaper.Replace(text)
	return customer, len(customer) >= 1 && len(customer) <= priority.MaxCustomerBytes
}

// unescaper undoes the escapes of a customer in a key.
var unescaper = strings.NewReplacer("%25", "%", "%7D", "}")
