package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
)

// Every field that the program prints stands in the table that says which of them are stable.
func TestJSON_Documented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "versions.md"))
	if err != nil {
		t.Fatal(err)
	}
	o, _ := started(t)
	fields := make(map[string]bool)
	for _, kind := range []any{
		insight.Customer{}, insight.Brief{}, insight.Top{}, insight.Check{}, insight.Worker{}, insight.Override{}, insight.Removal{}, insight.Logged{},
		overrideChange{}, summary{}, failure{}, control.Backup{},
	} {
		addFields(reflect.TypeOf(kind), fields)
	}
	state := priority.State{Rule: priority.ByLoad, Bounds: priority.Bounds{Earliest: 1}, Scheduled: 1, AccountLoad: 1, AccountFlood: 1, Degraded: true}
	policy := priority.Policies{Policy: priority.Policy{InOrder: true}, Tiers: map[string]priority.Policy{}}
	_, status, _ := o.ask("status", "-json")
	for _, object := range objects(t, status+o.ok("top", "-json")+text(t, state)+text(t, policy.WithDefaults())) {
		for field := range object {
			fields[field] = true
		}
	}
	for field := range fields {
		if !strings.Contains(string(page), "`"+field+"`") {
			t.Errorf("the table of JSON in docs/versions.md does not name %q", field)
		}
	}
}

// A terminal obeys nothing in JSON, and who reads it gets all of it.
func TestJSON_Terminal(t *testing.T) {
	t.Parallel()
	const name = "a\x1b[31m\u202e\u0085\U000e0041文"
	var out strings.Builder
	var read string
	if err := writeJSON(&out, name); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out.String()), &read); err != nil || read != name || out.String() != `"a\u001b[31m\u202e\u0085\udb40\udc41文"`+"\n" {
		t.Errorf("%v: %s", err, out.String())
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// addFields adds the fields that a type has in JSON, unless it writes them itself.
func addFields(of reflect.Type, fields map[string]bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || of == reflect.TypeFor[priority.State]() || of == reflect.TypeFor[priority.Policies]() {
		return
	}
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = true
		}
		if name != "-" && field.IsExported() {
			addFields(field.Type, fields)
		}
	}
}
