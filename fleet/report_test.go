package fleet

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
)

// example is a report of another language, with every field, and one of a later version.
const example = `{"format":1,"id":"a1","name":"worker-4","language":"python","version":"0.1.0","host":"h","pid":7,"up_ms":120500,
"window_ms":58250,"levels":9,"overrides":true,"degraded":true,"rules":{"version":12,"error":"Redis does not answer"},
"by_count":{"1":10},"by_load":{"4":100,"9":20},"overridden":3,"fallback":2,"errors":{"not_counted":1},
"waits":{"4":{"31":5,"32":1}},"later":{"a":[1]},"busiest":[
{"customer":"acme","documents":120,"rule":"load","level":9,"load":812.5},
{"customer_base64":"/w==","documents":3,"rule":"count","level":1,"count":-2}]}`

var exampleReport = Report{
	ID: "a1", Name: "worker-4", Language: "python", Version: "0.1.0", Host: "h", PID: 7, Up: 120500 * time.Millisecond,
	Window: 58250 * time.Millisecond, Levels: 9, Overrides: true, Degraded: true, Rules: Rules{12, "Redis does not answer"},
	ByCount: map[priority.Level]int64{1: 10}, ByLoad: map[priority.Level]int64{4: 100, 9: 20}, Overridden: 3, Fallback: 2,
	Errors: map[string]int64{"not_counted": 1}, Waits: map[priority.Level]Histogram{4: {31: 5, 32: 1}},
	Busiest: []Busy{
		{"acme", 120, priority.ByLoad, 9, 0, 812.5},
		{"\xff", 3, priority.ByCount, 1, -2, 0},
	},
}

func TestAReportIsReadAsItWasWritten(t *testing.T) {
	var read Report
	if err := json.Unmarshal([]byte(example), &read); err != nil || !reflect.DeepEqual(read, exampleReport) {
		t.Errorf("%v\n%+v, want\n%+v", err, read, exampleReport)
	}
	var again Report
	if err := json.Unmarshal(read.fit(), &again); err != nil || !reflect.DeepEqual(again, exampleReport) {
		t.Errorf("%v\n%+v, want\n%+v", err, again, exampleReport)
	}
	var written, want map[string]any
	if err := json.Unmarshal(read.fit(), &written); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(example), &want); err != nil {
		t.Fatal(err)
	}
	delete(want, "later")
	if !reflect.DeepEqual(written, want) {
		t.Errorf("written: %v\nwant: %v", written, want)
	}
}

func TestWhatIsNoReport(t *testing.T) {
	for _, text := range []string{
		"", "{}", "null", "[]", "7", `{"format":2}`, `{"format":1}`,
		`{"format":1,"levels":9,"by_count":{"0":1}}`, `{"format":1,"levels":9,"by_count":{"x":1}}`, `{"format":1,"levels":9,"by_load":{"1":-1}}`,
		`{"format":1,"levels":9,"waits":{"1":{"108":1}}}`, `{"format":1,"levels":9,"waits":{"1":{"1":1e30}}}`, `{"format":1,"levels":9,"up_ms":-1}`,
		`{"format":1,"levels":9,"errors":{"x":-1}}`, `{"format":1,"levels":9,"busiest":[{"documents":-1}]}`,
		`{"format":1,"levels":9,"busiest":[{"customer_base64":"%"}]}`, `{"format":1,"levels":9,"overridden":-1}`, strings.Repeat("[", 1e5),
	} {
		r := found{"id", text, time.Second}.report()
		if r.Err == nil || r.ID != "id" || r.Age != time.Second || r.Documents() != 0 {
			t.Errorf("%.60s: %+v", text, r)
		}
	}
	if r := (found{"id", `{"format":1,"levels":9,"id":"another"}`, 0}).report(); r.Err != nil || r.ID != "id" {
		t.Errorf("%+v", r)
	}
}

// The largest numbers fit, whatever there is to say.
func TestAReportHasABound(t *testing.T) {
	r := Report{
		ID: "id", Name: plainText(strings.Repeat("\x00", 500), maxNameBytes), Host: plainText(strings.Repeat("<", 500), maxNameBytes),
		Version: strings.Repeat("9", maxNameBytes), Rules: Rules{1e9, plainText(strings.Repeat("x", 5000), maxErrorBytes)},
		ByCount: make(map[priority.Level]int64), ByLoad: make(map[priority.Level]int64), Waits: make(map[priority.Level]Histogram),
	}
	for level := range priority.Level(lastLevel) {
		r.ByCount[level+1] = 1e6
	}
	for level := range priority.Level(63) {
		r.ByLoad[level+1], r.Waits[level+1] = 1e6, make(Histogram)
		for i := range lastBucket + 1 {
			r.Waits[level+1][i] = 1e5
		}
	}
	for range mostBusiest {
		r.Busiest = append(r.Busiest, Busy{Customer: strings.Repeat("\x01", 512), Documents: 1e6})
	}
	written := r.fit()
	var read Report
	if err := json.Unmarshal(written, &read); len(written) > maxReportBytes || err != nil && !strings.Contains(err.Error(), "levels 0") {
		t.Errorf("%d bytes: %v", len(written), err)
	}
}

// Waits that are spread widely are told less exactly, and leave room for customers.
func TestWideWaitsAreToldLessExactly(t *testing.T) {
	r := exampleReport
	r.Waits = make(map[priority.Level]Histogram)
	for level := range priority.Level(9) {
		r.Waits[level+1] = make(Histogram)
		for i := range lastBucket + 1 {
			r.Waits[level+1][i] = 1e5
		}
	}
	var read Report
	if err := json.Unmarshal(r.fit(), &read); err != nil || len(read.Waits) != 9 || len(read.Busiest) != 2 {
		t.Fatalf("%v: %+v", err, read)
	}
	for level, h := range read.Waits {
		if was := r.Waits[level]; h.Count() != was.Count() || h.Median() < was.Median() || h.Median() > 2*was.Median() {
			t.Errorf("level %d: %v of %d, want %v of %d", level, h.Median(), h.Count(), was.Median(), was.Count())
		}
	}
}

// Of a customer in several reports the documents are added, and the newest report's level
// holds. A report that cannot be read is counted, and adds nothing.
func TestAdd(t *testing.T) {
	aged := func(age time.Duration, fields string) Report {
		return found{"id", `{"format":1,"levels":9,` + fields + `}`, age}.report()
	}
	total := Add([]Report{
		aged(3*time.Second, `"overrides":true,"rules":{"version":12},"window_ms":9000,"busiest":[{"customer":"acme","documents":5,"rule":"load","level":9,"load":99}]`),
		aged(1*time.Second, `"overrides":true,"rules":{"version":12,"error":"late"},"busiest":[{"customer":"acme","documents":2,"rule":"count","level":1,"count":-2}]`),
		aged(2*time.Second, `"degraded":true,"window_ms":8000,"busiest":[{"customer":"a","documents":8,"rule":"load","level":2,"load":4},{"customer":"acme","documents":1,"rule":"load","level":4,"load":70}]`),
		aged(0, `"by_load":{"1":-1},"busiest":[{"customer":"acme","documents":50}]`),
	})
	want := []Busy{{"acme", 8, priority.ByCount, 1, -2, 0}, {"a", 8, priority.ByLoad, 2, 0, 4}}
	slices.SortFunc(want, busier)
	if !slices.Equal(total.Busiest, want) {
		t.Errorf("the busiest are %+v, want %+v", total.Busiest, want)
	}
	if total.Reports != 3 || total.Unreadable != 1 || total.Degraded != 1 || total.IgnoreOverrides != 1 || total.NotFollowing != 1 ||
		total.Following[12] != 2 || total.Window != 9*time.Second {
		t.Errorf("%+v", total)
	}
}
