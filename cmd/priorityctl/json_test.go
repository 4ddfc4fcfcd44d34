package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
)

// Every field that the program prints stands in the row of its object, in the table that
// says which of them are stable.
func TestJSON_Documented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "versions.md"))
	if err != nil {
		t.Fatal(err)
	}
	o, _ := started(t)
	_, status, _ := o.ask("status", "-json")
	for object, values := range map[string][]any{
		"`get`":            {insight.Customer{}},
		"`list`":           {insight.Brief{}},
		"`top`":            {insight.Top{}, o.ok("top", "-json")},
		"`status`":         {status},
		"`workers`":        {insight.Worker{}},
		"`override list`":  {control.Override{Customer: "acme", Bounds: priority.Bounds{Earliest: 1}, At: time.Now(), Until: time.Now()}},
		"`override set`":   {overrideChange{}},
		"`policy` and":     {summary{}},
		"`reset`":          {insight.Removal{}},
		"`log`":            {insight.Logged{}},
		"`control export`": {&control.Backup{Applied: control.Applied{Version: 1}}},
		"`control import`": {control.Imported{}},
		"a customer for":   {failure{}},
		"in `state`": {priority.State{
			Rule: priority.ByLoad, Scheduled: 1, AccountLoad: 1, AccountFlood: 1, Degraded: true, Bounds: priority.Bounds{Earliest: 1},
		}, priority.State{}},
		"in `levels`":    {insight.Level{}},
		"in `waits`":     {insight.Waits{}},
		"in `busiest`":   {insight.Busy{}},
		"in `hour`":      {insight.Part{}},
		"in `users`":     {insight.User{}},
		"in `checks`":    {insight.Check{}},
		"in `following`": {control.Following{}},
		"in `policies`":  {priority.Policies{Policy: priority.Policy{InOrder: true}, Tiers: map[string]priority.Policy{"gold": {}}}},
	} {
		row := tableRow(t, string(page), object)
		fields := make(map[string]bool)
		for _, value := range values {
			printed, isText := value.(string)
			if marshaler, ok := value.(json.Marshaler); ok {
				text, err := marshaler.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				printed, isText = string(text), true
			}
			if isText {
				for _, object := range objects(t, printed) {
					for field := range object {
						fields[field] = true
					}
				}
			} else {
				addFields(reflect.TypeOf(value), fields)
			}
		}
		for field := range fields {
			if name := strings.TrimSuffix(field, "_base64"); name != "customer" && !strings.Contains(row, "`"+name+"`") {
				t.Errorf("docs/versions.md: the row %s does not name %q", object, field)
			}
		}
		for _, named := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(rowNamed.ReplaceAllString(nested.ReplaceAllString(row, ""), ""), -1) {
			if !fields[named[1]] {
				t.Errorf("docs/versions.md: the row %s names %q, which is not there", object, named[1])
			}
		}
	}
}

var nested = regexp.MustCompile(`\([^)]*\)`)

var rowNamed = regexp.MustCompile("as (?:in|of) (`[^`]+`)")

// tableRow returns the fields of an object, with those of the rows that it refers to.
func tableRow(t *testing.T, page, object string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^\| (?:in )?` + object + `.*\|$`).FindString(page)
	if found == "" {
		t.Fatalf("docs/versions.md has no row for %s", object)
	}
	_, row, _ := strings.Cut(strings.TrimPrefix(found, "| "), " | ")
	for _, reference := range rowNamed.FindAllStringSubmatch(nested.ReplaceAllString(row, ""), -1) {
		row += tableRow(t, page, reference[1])
	}
	return row
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

// addFields adds the fields that a struct has in JSON, and those of structs that it embeds.
func addFields(of reflect.Type, fields map[string]bool) {
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name != "":
			fields[name] = true
		case field.Anonymous:
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				addFields(embedded, fields)
			}
		}
	}
	delete(fields, "-")
}
