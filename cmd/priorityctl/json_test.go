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
	printed := objects(t, o.ok("status", "-json")+o.ok("top", "-json"))
	for _, kind := range []any{
		insight.Customer{}, insight.Brief{}, insight.Top{}, insight.Check{}, insight.Worker{}, insight.Override{}, insight.Removal{}, insight.Logged{},
		overrideChange{}, summary{}, failure{}, control.Backup{},
	} {
		value := reflect.New(reflect.TypeOf(kind))
		fill(value.Elem())
		text, err := json.Marshal(value.Interface())
		if err != nil {
			t.Fatalf("%T: %v", kind, err)
		}
		printed = append(printed, objects(t, string(text))...)
	}
	var check func(name string, value any)
	check = func(name string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for field, inside := range value {
				if name != "errors" && name != "tiers" && !strings.Contains(string(page), "`"+field+"`") {
					t.Errorf("docs/versions.md does not name %q, which %q has", field, name)
				}
				check(field, inside)
			}
		case []any:
			for _, inside := range value {
				check(name, inside)
			}
		}
	}
	for _, object := range printed {
		check("an object", object)
	}
}

// fill gives every field a value.
func fill(v reflect.Value) {
	switch {
	case !v.CanSet():
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
	case v.Type() == reflect.TypeFor[priority.Policies]():
		policy := priority.Policy{InOrder: true}
		v.Set(reflect.ValueOf(priority.Policies{Policy: policy, Tiers: map[string]priority.Policy{"x": policy}}.WithDefaults()))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), value)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	}
}
