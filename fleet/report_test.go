package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// example is a report of another language, with every field, and one of a later version.
const example = `{"format":1,"id":"a1","name":"worker-4","language":"python","version":"0.1.0","host":"h","pid":7,"up_ms":120500,
"window_ms":58250,"written_ms":1795792000123,"changed_ms":1795792000001,"digest":"0123456789abcdef","levels":9,"overrides":true,"degraded":true,"following":{"version":12,"own":true,"code":"refused","detail":"NOPERM"},
"by_count":{"1":10},"by_load":{"4":100,"9":20},"overridden":3,"fallback":2,"errors":{"not_counted":1},
"waits":{"4":{"31":5,"32":1}},"first_hour":{"40":7},"submitted_hour":130,"ended_hour":57,"later":{"a":[1]},"busiest":[
{"customer":"acme","documents":120,"rule":"load","level":9,"load":812.5,"ago_ms":1500,"pending":40,"hour":"9 120 9 3400 1 1"},
{"customer_base64":"/w==","documents":0,"rule":"count","level":1,"count":-2,"ago_ms":0}]}`

var exampleReport = Report{
	ID: "a1", Name: "worker-4", Language: "python", Version: "0.1.0", Host: "h", PID: 7, Up: 120500 * time.Millisecond,
	Window: 58250 * time.Millisecond, Levels: 9, Overrides: true, Degraded: true, Following: control.Following{Version: 12, Own: true, Code: control.Refused, Detail: "NOPERM"},
	ByCount: map[priority.Level]int64{1: 10}, ByLoad: map[priority.Level]int64{4: 100, 9: 20}, Overridden: 3, Fallback: 2,
	Errors: map[string]int64{"not_counted": 1}, Waits: map[priority.Level]Histogram{4: {31: 5, 32: 1}}, FirstHour: Histogram{40: 7},
	Written: time.UnixMilli(1795792000123), Changed: time.UnixMilli(1795792000001), Digest: "0123456789abcdef", Submitted: 130, Ended: 57,
	Busiest: []Busy{
		{"acme", 120, priority.ByLoad, 9, 0, 812.5, 1500 * time.Millisecond, 40, []Part{{9 * time.Second, 120, 9}, {3400 * time.Second, 1, 1}}},
		{Customer: "\xff", Rule: priority.ByCount, Level: 1, Count: -2},
	},
}

func TestReport_JSON(t *testing.T) {
	var read, again Report
	if err := json.Unmarshal([]byte(example), &read); err != nil || !reflect.DeepEqual(read, exampleReport) {
		t.Errorf("%v\n%+v, not\n%+v", err, read, exampleReport)
	}
	if err := json.Unmarshal(read.fit(), &again); err != nil || !reflect.DeepEqual(again, exampleReport) {
		t.Errorf("%v\n%+v, not\n%+v", err, again, exampleReport)
	}
	var written, want map[string]any
	if err := errors.Join(json.Unmarshal(read.fit(), &written), json.Unmarshal([]byte(example), &want)); err != nil {
		t.Fatal(err)
	}
	delete(want, "later")
	if !reflect.DeepEqual(written, want) {
		t.Errorf("written: %v\nnot: %v", written, want)
	}
}

// A report that no process writes is unreadable as a whole, and stops no other one.
func TestRead_BadReports(t *testing.T) {
	good := found{"good", example, 0}.report()
	reports := []Report{good}
	busy := func(fields string) string {
		return `"busiest":[{"customer":"ok","documents":1,"level":1},` + fields + `]`
	}
	many := ""
	for i := range maxClasses {
		many += fmt.Sprintf(`,"%d":1`, i+1)
	}
	for _, fields := range []string{
		"", "null", "[]", "7", `{"format":2}`, `{"format":1}`, strings.Repeat("[", 1e5), strings.Replace(example, `"python"`, `"`+strings.Repeat("x", maxReadBytes)+`"`, 1),
		`"levels":0`, `"levels":256`, `"up_ms":-1`, `"window_ms":9e30`, `"following":{"version":-1}`, `"written_ms":-1`, `"changed_ms":-1`, `"written_ms":10000000000001`, `"digest":"` + strings.Repeat("x", 201) + `"`, `"submitted_hour":-1`, `"ended_hour":1000000001`, `"overridden":-1`, `"fallback":1000000000000000000`,
		`"by_count":{"0":1}`, `"by_count":{"-7":1}`, `"by_count":{"x":1}`, `"by_load":{"256":1}`, `"by_load":{"1":-1}`, `"by_load":{"1":9223372036854775807}`,
		`"waits":{"1":{"108":1}}`, `"waits":{"0":{"1":1}}`, `"waits":{"1":{"1":1e18}}`, `"waits":{"1":{"1":1000000000000000000}}`, `"first_hour":{"-1":1}`,
		`"errors":{"x":-1}`, `"errors":{"0":1` + many + `}`,
		busy(`null`), busy(`{"documents":1,"level":1}`), busy(`{"customer":"","documents":1,"level":1}`), busy(`{"customer":"` + strings.Repeat("x", 600) + `","documents":1,"level":1}`),
		busy(`{"customer":"a","documents":-1,"level":1}`), busy(`{"customer":"a","documents":1,"level":-7}`), busy(`{"customer":"a","documents":1000000000000000000,"level":1}`),
		busy(`{"customer":"a","level":1,"pending":-1}`), busy(`{"customer":"a","level":1,"ago_ms":-1}`), busy(`{"customer_base64":"%","level":1}`),
		busy(`{"customer":"a","level":1,"hour":"7201 1 1"}`), busy(`{"customer":"a","level":1,"hour":"0 1 256"}`), busy(`{"customer":"a","level":1,"hour":"0 -1 1"}`), busy(`{"customer":"a","level":1,"hour":"0 1"}`),
		busy(`{"customer":"a","level":1}` + strings.Repeat(`,{"customer":"a","level":1}`, 39)),
	} {
		text := fields
		if strings.HasPrefix(fields, `"`) {
			text = `{"format":1,"levels":9,` + fields + `}`
		}
		r := found{"id", text, time.Second}.report()
		if r.Err == nil || r.ID != "id" || r.Age != time.Second || r.Documents() != 0 || len(r.Busiest) > 0 {
			t.Errorf("%.80s: %+v", text, r)
		}
		reports = append(reports, r)
	}
	if total := Add(reports); total.Reports != 1 || total.Unreadable != len(reports)-1 || total.Documents() != 130 || len(total.Busiest) != 2 {
		t.Errorf("%+v", total)
	}
	if r := (found{"id", `{"format":1,"levels":9,"id":"another"}`, 0}).report(); r.Err != nil || r.ID != "id" {
		t.Errorf("%+v", r)
	}
}

// Of a customer in several reports the documents are added, and the youngest decision holds,
// however old its report is. Of those who are gone only the hour counts.
func TestAdd(t *testing.T) {
	aged := func(age time.Duration, fields string) Report {
		return found{"id", `{"format":1,"levels":9,` + fields + `}`, age}.report()
	}
	total := Add([]Report{
		aged(1*time.Second, `"overrides":true,"following":{"version":12,"code":"unreachable"},"busiest":[{"customer":"acme","documents":2,"rule":"count","level":1,"count":-2,"ago_ms":40000,"hour":"0 2 1 310 4 2"}]`),
		aged(3*time.Second, `"overrides":true,"following":{"version":12},"window_ms":9000,"busiest":[{"customer":"acme","documents":5,"rule":"load","level":9,"load":99,"ago_ms":100,"pending":7,"hour":"100 5 9"}]`),
		aged(2*time.Second, `"degraded":true,"submitted_hour":7,"ended_hour":1,"window_ms":8000,"first_hour":{"1":1},"busiest":[{"customer":"a","documents":8,"rule":"load","level":2,"load":4}]`),
		aged(0, `"by_load":{"1":-1},"busiest":[{"customer":"acme","documents":50}]`),
		aged(7*time.Minute, `"degraded":true,"submitted_hour":5,"ended_hour":2,"by_load":{"1":9},"first_hour":{"1":2},"busiest":[{"customer":"acme","documents":9,"rule":"load","level":3,"hour":"0 9 3 3400 1 1"}]`),
		aged(time.Minute, `"format":2`),
	})
	want := []Busy{
		{Customer: "a", Documents: 8, Rule: priority.ByLoad, Level: 2, Load: 4, Ago: 2 * time.Second},
		{"acme", 7, priority.ByLoad, 9, 0, 99, 3100 * time.Millisecond, 7, []Part{{103 * time.Second, 7, 9}, {7 * time.Minute, 13, 3}, {3820 * time.Second, 1, 1}}},
	}
	if !reflect.DeepEqual(total.Busiest, want) {
		t.Errorf("the busiest are %+v, not %+v", total.Busiest, want)
	}
	if total.Reports != 3 || total.Unreadable != 1 || total.Gone != 2 || total.Degraded != 1 ||
		total.Window != 9*time.Second || total.Documents() != 0 || total.FirstHour[1] != 3 || total.Submitted != 12 || total.Ended != 3 {
		t.Errorf("%+v", total)
	}
}
