package census

import (
	"strconv"
	"strings"

	"github.com/docpriority/priority"
)

const end = "}:count"

// Pattern returns the glob that matches the keys of all counts of a prefix.
func Pattern(prefix string) string {
	return globEscaper.Replace(prefix) + ":{*" + end
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// CustomerOf returns the customer whose count's key this is. It is false for a
// key that the module never writes.
func CustomerOf(prefix, key string) (customer string, ok bool) {
	body, ok := strings.CutPrefix(key, prefix+":{")
	if !ok {
		return "", false
	}
	body, ok = strings.CutSuffix(body, end)
	if !ok || strings.Contains(body, "}") {
		return "", false
	}
	for rest := body; ; {
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
	customer = unescaper.Replace(body)
	return customer, len(customer) >= 1 && len(customer) <= priority.MaxCustomerBytes
}

// unescaper undoes what the module does to a customer in a key.
var unescaper = strings.NewReplacer("%25", "%", "%7D", "}")

// parseCount reads a count as the module writes it.
func parseCount(text string) (count int64, ok bool) {
	count, err := strconv.ParseInt(text, 10, 64)
	const most = 1e15
	return count, err == nil && strconv.FormatInt(count, 10) == text && count > -most && count < most
}
