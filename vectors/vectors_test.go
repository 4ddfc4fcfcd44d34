// Package vectors_test holds the module's stores to the vectors that other languages are
// tested with, and writes them: go test ./vectors -update
package vectors_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/vectors"
	"github.com/docpriority/priority/memory"
)

var update = flag.Bool("update", false, "write the vectors anew")

func TestRule(t *testing.T)   { verify(t, "rule.json", ruleCases()) }
func TestSubmit(t *testing.T) { verify(t, "submit.json", submitCases()) }
func TestEdges(t *testing.T)  { verify(t, "edges.json", edgeCases()) }

// verify holds a file to what its cases come to on a Redis whose time stands still, and the
// store in memory to the cases that it can do.
func verify(t *testing.T, file string, cases []vectors.Case) {
	t.Parallel()
	for i, c := range cases {
		steps, err := vectors.Run(t.Context(), c, onRedis{vectors.StartRedis(t), c, make(map[time.Duration]priority.Store)})
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		cases[i].Steps = steps
		if !c.ForStores() {
			continue
		}
		steps, err = vectors.Run(t.Context(), c, openMemory(t, c))
		if err != nil {
			t.Fatalf("in memory: %s: %v", c.Name, err)
		}
		if why := cases[i].Difference(steps); why != "" {
			t.Errorf("in memory: %s", why)
		}
	}
	compare(t, file, asFile(t, "cases", cases))
}

// onRedis has a RedisStore for each lease.
type onRedis struct {
	*vectors.Redis
	c      vectors.Case
	stores map[time.Duration]priority.Store
}

func (w onRedis) Store(lease time.Duration) priority.Store {
	if w.stores[lease] == nil {
		store, err := priority.NewRedisStore(w.Client, &priority.RedisOptions{Policy: w.c.Policy.Priority(), Lease: lease, Timeout: time.Minute, Overrides: true})
		if err != nil {
			panic(err)
		}
		w.stores[lease] = store
	}
	return w.stores[lease]
}

// inMemory is a store in memory with a clock that is moved.
type inMemory struct {
	store *memory.Store
	now   time.Time
}

func openMemory(t *testing.T, c vectors.Case) *inMemory {
	t.Helper()
	w := &inMemory{now: time.UnixMilli(0)}
	var err error
	w.store, err = memory.New(&memory.Options{
		Policy: c.Policy.Priority(), Lease: vectors.Milliseconds(c.Lease), Now: func() time.Time { return w.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *inMemory) Pass(d time.Duration)               { w.now = w.now.Add(d) }
func (w *inMemory) Store(time.Duration) priority.Store { return w.store }
func (w *inMemory) Other(vectors.Case, vectors.Step) ([]vectors.Result, error) {
	return nil, errors.ErrUnsupported
}

// oddCustomers would share a key, or a hash tag, or be cut short, where a key is made
// without care.
var oddCustomers = []string{
	"acme", "Acme", "acme ", "{", "}", "}{", "{acme}", "acme}", "a}b", "a{b", "%", "%25", "%7D", "%7d", "a%7Db", "%s",
	"acme}:count", ":", "\x00", "a\x00b", "\n", "*1\r\n$4\r\nPING\r\n", "\xff", "\xed\xa0\x80", "ü", "u\u0308", "\U0001F4C4", "\"", "\\", "0", "nil",
	strings.Repeat("x", 512), strings.Repeat("}", 512), strings.Repeat("\x00", 512),
}

func TestKeys(t *testing.T) {
	var keys []vectors.Keys
	for prefix, customers := range map[string][]string{"priority": oddCustomers, "größer:%": {"acme", "100%", "{a}", "\xff"}} {
		store := offline(t, &priority.RedisOptions{Prefix: prefix})
		inHex := func(text string) string { return hex.EncodeToString([]byte(text)) }
		for _, customer := range customers {
			keys = append(keys, vectors.Keys{
				Shown: strconv.QuoteToASCII(fmt.Sprintf("%.40s", customer)), Prefix: prefix, Customer: inHex(customer),
				Count: inHex(store.Keys(customer).Count), Pending: inHex(store.Keys(customer).Pending), Override: inHex(store.Keys(customer).Override),
			})
		}
	}
	slices.SortStableFunc(keys, func(a, b vectors.Keys) int { return cmp.Compare(b.Prefix, a.Prefix) })
	compare(t, "keys.json", asFile(t, "keys", keys))
}

// offline returns a store that is never asked to send anything.
func offline(t *testing.T, opts *priority.RedisOptions) *priority.RedisStore {
	t.Helper()
	store, err := priority.NewRedisStore(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), opts)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// asFile returns an object as JSON, with a line for each item of its lists. Its fields
// are names, each followed by a value.
func asFile(t *testing.T, fields ...any) []byte {
	t.Helper()
	var parts []string
	for i := 0; i < len(fields); i += 2 {
		text := asJSON(t, fields[i+1])
		if items := reflect.ValueOf(fields[i+1]); items.Kind() == reflect.Slice && items.Index(0).Kind() == reflect.Struct {
			lines := make([]string, items.Len())
			for i := range lines {
				lines[i] = asJSON(t, items.Index(i).Interface())
			}
			text = "[\n" + strings.Join(lines, ",\n") + "\n]"
		}
		parts = append(parts, asJSON(t, fields[i])+": "+text)
	}
	return []byte("{" + strings.Join(parts, ",\n") + "}\n")
}

// compare compares a file with what it should be, or writes it.
func compare(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what its cases come to (%v): run go test ./vectors -update and look at the difference", file, err)
	}
}

// asJSON is JSON in one line, with < and > as they are.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
