package priority_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// FuzzKey shows that no two customers share a key, that the keys' hash tag holds
// all of the customer and nothing else, and that it can be read back.
func FuzzKey(f *testing.F) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	f.Cleanup(func() { _ = client.Close() })
	store := openStore(f, client, &priority.RedisOptions{Prefix: "p%7D:"})
	for i, customer := range oddCustomers {
		f.Add(customer, oddCustomers[(i+1)%len(oddCustomers)])
		f.Add(customer, customer+"}")
		f.Add(customer, strings.ReplaceAll(strings.ReplaceAll(customer, "%", "%25"), "}", "%7D"))
		f.Add(customer, strings.ToUpper(customer))
	}
	long := strings.Repeat("x", 511)
	f.Add(long+"}", long+"%7D")
	f.Add("acme}:count", "acme")
	f.Fuzz(func(t *testing.T, a, b string) {
		for end, keyOf := range map[string]func(string) string{":count": store.Key, ":pending": store.PendingKey, ":usage": store.UsageKey} {
			keyA, keyB := keyOf(a), keyOf(b)
			if (keyA == keyB) != (a == b) {
				t.Errorf("%q and %q have the keys %q and %q", a, b, keyA, keyB)
			}
			if a == "" {
				continue // no customer: it has no tag to speak of
			}
			// As Redis finds the tag: from the first { to the first } after it.
			prefix, rest, _ := strings.Cut(keyA, "{")
			tag, suffix, found := strings.Cut(rest, "}")
			if !found || prefix != "p%7D::" || suffix != end {
				t.Errorf("%q has the key %q, whose tag is %q", a, keyA, tag)
			}
			if got := strings.NewReplacer("%25", "%", "%7D", "}").Replace(tag); got != a {
				t.Errorf("%q comes back as %q from its key %q", a, got, keyA)
			}
		}
	})
}
