package main

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/markdown"
)

// printed is what commands print as JSON, by the headings of docs/json.md.
var printed = map[string]any{
	"A state":              insight.State{},
	"A customer":           insight.Customer{},
	"A listed customer":    insight.Listed{},
	"The last minute":      insight.Snapshot{},
	"A worker":             insight.Worker{},
	"A health check":       insight.Health{},
	"A reset":              insight.WasReset{},
	"A forgotten customer": insight.Forgotten{},
	"An override":          insight.Overridden{},
	"A changed override":   overrideChanged{},
	"A change":             insight.Logged{},
	"Rules":                insight.SetRules{},
	"Changed rules":        rulesChanged{},
	"A checked file":       checkedFile{},
	"Two policies":         compared{},
	"An import":            imported{},
	"Who obeys":            insight.Obedience{},
	"A failure":            failure{},
}

// The document has each field, and no other.
func TestEveryFieldOfJSONIsDocumented(t *testing.T) {
	t.Parallel()
	text := string(markdown.Read(t, "../../docs/json.md"))
	sections := strings.Split(text, "\n## ")
	if len(sections)-1 != len(printed) {
		t.Errorf("%d sections for %d objects", len(sections)-1, len(printed))
	}
	code := regexp.MustCompile("`([^`]+)`")
	for _, section := range sections[1:] {
		heading, body, _ := strings.Cut(section, "\n")
		object, ok := printed[heading]
		if !ok {
			t.Errorf("%q is nothing that is printed", heading)
			continue
		}
		var documented []string
		for line := range strings.Lines(body) {
			if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
				for _, name := range code.FindAllStringSubmatch(cell, -1) {
					documented = append(documented, name[1])
				}
			}
		}
		fields := fieldsOf(reflect.TypeOf(object), "", heading == "A state")
		slices.Sort(documented)
		slices.Sort(fields)
		if !slices.Equal(documented, fields) {
			t.Errorf("%s: documented are\n%q\nand not\n%q", heading, documented, fields)
		}
	}
}

// fieldsOf returns the names of all fields in JSON. Objects that have a section of their
// own, or a text of their own, are one field.
func fieldsOf(of reflect.Type, before string, whole bool) (names []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case field.Anonymous && kind == reflect.TypeFor[insight.State]() && !whole: // has its own section
			if before != "" {
				names = append(names, strings.TrimSuffix(before, "."))
			}
		case field.Anonymous:
			names = append(names, fieldsOf(kind, before, false)...)
		case kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct:
			names = append(names, fieldsOf(kind.Elem(), before+name+"[].", false)...)
		case kind.Kind() == reflect.Struct && !isText(kind) && !hasSection(kind):
			names = append(names, fieldsOf(kind, before+name+".", false)...)
		default:
			names = append(names, before+name)
		}
	}
	return names
}

// isText reports whether a type writes its JSON itself.
func isText(of reflect.Type) bool {
	return of.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(of).Implements(reflect.TypeFor[json.Marshaler]())
}

func hasSection(of reflect.Type) bool {
	for _, object := range printed {
		if reflect.TypeOf(object) == of {
			return true
		}
	}
	return false
}
