// Package vectors_test checks the module against the vectors that clients in other languages are
// tested with. go test ./vectors -update fills in the results of cases written by hand.
package vectors_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/testing/vectors"
	"github.com/docpriority/priority/internal/testing/virtualredis"
	"github.com/docpriority/priority/lua"
	"github.com/docpriority/priority/memory"
)

var update = flag.Bool("update", false, "write the vectors anew")

func TestRule(t *testing.T)     { verify(t, "rule.json") }
func TestSubmit(t *testing.T)   { verify(t, "submit.json") }
func TestDue(t *testing.T)      { verify(t, "due.json") }
func TestAccounts(t *testing.T) { verify(t, "accounts.json") }
func TestEdges(t *testing.T)    { verify(t, "edges.json") }

// verify compares the results in a file with Redis, and with the store in memory where it can
// do every step of a case.
func verify(t *testing.T, name string) {
	t.Parallel()
	type cases struct {
		Cases []vectors.Case `json:"cases"`
	}
	check(t, name, func(file *cases) {
		for i, c := range file.Cases {
			steps, err := vectors.Run(t.Context(), c, onRedis(t, c))
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			file.Cases[i].Steps = steps
			if !c.ForStores() {
				continue
			}
			steps, err = vectors.Run(t.Context(), c, inMemory(t, c))
			if err != nil {
				t.Fatalf("in memory: %s: %v", c.Name, err)
			}
			if why := file.Cases[i].Difference(steps); why != "" {
				t.Errorf("in memory: %s", why)
			}
		}
	})
}

// onRedis has a RedisStore for each step.
func onRedis(t *testing.T, c vectors.Case) vectors.World {
	t.Helper()
	server := virtualredis.Start(t)
	client := server.Listen()
	return vectors.World{Pass: server.Pass, Redis: client, Store: func(lease time.Duration) priority.Store {
		store, err := priority.NewRedisStore(client, &priority.RedisOptions{
			Policy: c.Policy.Priority(), Lease: lease, Timeout: time.Minute, Overrides: true, Accounts: c.Accounts,
		})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}}
}

// inMemory has one store, on a clock that is moved.
func inMemory(t *testing.T, c vectors.Case) vectors.World {
	t.Helper()
	now := time.UnixMilli(0)
	store, err := memory.New(&memory.Options{
		Policy: c.Policy.Priority(), Lease: vectors.Milliseconds(c.Lease), Accounts: c.Accounts, Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return vectors.World{
		Pass:  func(d time.Duration) { now = now.Add(d) },
		Store: func(time.Duration) priority.Store { return store },
	}
}

func TestKeys(t *testing.T) {
	type keysFile struct {
		Keys []vectors.Keys `json:"keys"`
	}
	check(t, "keys.json", func(file *keysFile) {
		for i := range file.Keys {
			k := &file.Keys[i]
			customer, err := hex.DecodeString(k.Customer)
			if err != nil {
				t.Fatal(err)
			}
			got := offline(t, &priority.RedisOptions{Prefix: k.Prefix, Accounts: k.Accounts}).Keys(string(customer))
			if name, kind, ok := keys.Prefix(k.Prefix).Parse(got.Pending); name != string(customer) || kind != keys.Pending || !ok {
				t.Errorf("%q is the key of %q, a %q: %t", got.Pending, name, kind, ok)
			}
			inHex := func(text string) string { return hex.EncodeToString([]byte(text)) }
			k.Count, k.Pending, k.Override = inHex(got.Count), inHex(got.Pending), inHex(got.Override)
		}
	})
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

func TestPolicies(t *testing.T) {
	t.Parallel()
	check(t, "policies.json", func(file *vectors.Policies) {
		for i := range file.Policies {
			shape := &file.Policies[i]
			store := offline(t, &priority.RedisOptions{Policy: shape.Policy.Priority(), Lease: vectors.Milliseconds(shape.Lease)})
			filled := store.PolicyOf("acme")
			shape.Loads, shape.Turns, shape.Last = filled.Loads, filled.Turns, int64(store.Last())
			script := func(text string) string { return sha(vectors.Script(text, filled, store.Lease())) }
			shape.SHA = map[string]string{"next": script(lua.Next), "submit": script(lua.Submit), "peek": script(lua.Peek)}
		}
		file.Always = map[string]string{"done": sha(lua.Done), "reset": sha(lua.Reset)}
		for _, refusal := range file.Refused {
			_, err := priority.NewRedisStore(redis.NewClient(new(redis.Options)), &priority.RedisOptions{
				Policy: refusal.Policy.Priority(), Lease: vectors.Milliseconds(refusal.Lease),
			})
			if err == nil && refusal.Policy.Mode != "since_yesterday" { // a mode that Go cannot express
				t.Errorf("%s: a RedisStore takes it", refusal.Why)
			}
		}
	})
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestCosts(t *testing.T) {
	type costs struct {
		Cases []vectors.CostCase `json:"cases"`
	}
	check(t, "costs.json", func(file *costs) {
		for _, c := range file.Cases {
			var submitted, worked fair.Costs
			for i := range c.Steps {
				step := &c.Steps[i]
				if step.Costs == nil {
					each := fair.Each(vectors.Milliseconds(step.Took), step.N)
					step.Sent = []int64{worked.Relative(each)}
					for range step.Ended {
						worked.Add(step.Customer, each)
					}
					continue
				}
				step.Sent = nil
				for _, cost := range step.Costs {
					step.Sent = append(step.Sent, submitted.Relative(cost))
				}
				for _, cost := range step.Costs {
					submitted.Add(step.Customer, cost)
				}
			}
		}
	})
}

// check reads a file, has its results computed anew, and compares them with the file, or
// writes them.
func check[File any](t *testing.T, name string, compute func(*File)) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file := new(File)
	if err := json.Unmarshal(text, file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	compute(file)
	want := encode(t, file)
	if *update {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(text, want) {
		t.Errorf("%s has other results: run go test ./vectors -update and look at the difference", name)
	}
}

// encode returns a file as JSON, with a line for each item of its lists.
func encode(t *testing.T, file any) []byte {
	t.Helper()
	var parts []string
	all := reflect.ValueOf(file).Elem()
	for i := range all.NumField() {
		value := all.Field(i)
		text := asJSON(t, value.Interface())
		if value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct {
			lines := make([]string, value.Len())
			for i := range lines {
				lines[i] = asJSON(t, value.Index(i).Interface())
			}
			text = "[\n" + strings.Join(lines, ",\n") + "\n]"
		}
		parts = append(parts, asJSON(t, all.Type().Field(i).Tag.Get("json"))+": "+text)
	}
	return []byte("{" + strings.Join(parts, ",\n") + "}\n")
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
