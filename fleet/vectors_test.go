package fleet

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/observe"
)

var update = flag.Bool("update", false, "write vectors/reports.json anew")

const (
	second = 1000 // of the vectors' times, which are in milliseconds
	minute = 60 * second
)

// The format of reports.json; vectors/README.md describes it.
type (
	readVector struct {
		Name   string         `json:"name"`
		Text   string         `json:"text"`
		Report map[string]any `json:"report,omitempty"` // none: it is refused
	}
	sumVector struct {
		Name    string      `json:"name"`
		Reports []agedText  `json:"reports"`
		Totals  *sumOfTexts `json:"totals"`
	}
	agedText struct {
		Age    int64           `json:"age_ms"`
		Report json.RawMessage `json:"report"`
	}
	sumOfTexts struct {
		Reports         int                           `json:"reports,omitempty"`
		Unreadable      int                           `json:"unreadable,omitempty"`
		Degraded        int                           `json:"degraded,omitempty"`
		IgnoreOverrides int                           `json:"ignore_overrides,omitempty"`
		Following       map[int64]int                 `json:"following,omitempty"`
		NotFollowing    int                           `json:"not_following,omitempty"`
		Window          int64                         `json:"window_ms,omitempty"`
		ByCount         map[priority.Level]int64      `json:"by_count,omitempty"`
		ByLoad          map[priority.Level]int64      `json:"by_load,omitempty"`
		Overridden      int64                         `json:"overridden,omitempty"`
		Fallback        int64                         `json:"fallback,omitempty"`
		Errors          map[string]int64              `json:"errors,omitempty"`
		Waits           map[priority.Level]sumOfWaits `json:"waits,omitempty"`
		Busiest         []Busy                        `json:"busiest,omitempty"`
	}
	// sumOfWaits names times by their buckets.
	sumOfWaits struct {
		Buckets   Histogram `json:"buckets"`
		Documents int64     `json:"documents"`
		Median    int       `json:"median"`
		P95       int       `json:"p95"`
	}
	writeVector struct {
		Name  string      `json:"name"`
		Steps []writeStep `json:"steps"`
	}
	writeStep struct {
		At         int64            `json:"at_ms"`
		Do         string           `json:"do"`
		Customer   string           `json:"customer,omitempty"`
		Base64     string           `json:"customer_base64,omitempty"` // of one that is not UTF-8
		Levels     []priority.Level `json:"levels,omitempty"`          // of next and submit
		Count      *int64           `json:"count,omitempty"`           // of next's last document
		Load       *float64         `json:"load,omitempty"`            // of submit's
		Overridden bool             `json:"overridden,omitempty"`
		Fallback   bool             `json:"fallback,omitempty"`
		Ended      [][2]int64       `json:"ended,omitempty"` // of done: milliseconds, level
		Class      string           `json:"class,omitempty"` // of error
		Documents  int              `json:"documents,omitempty"`
		Report     map[string]any   `json:"report,omitempty"`
	}
)

func readVectors() []readVector {
	one := func(name, fields string) readVector {
		return readVector{Name: name, Text: `{"format":1,"id":"a1","levels":9` + fields + `}`}
	}
	return []readVector{
		{Name: "all fields", Text: strings.ReplaceAll(example, "\n", "")},
		one("what is absent is empty", ""),
		one("null is absent", `,"by_count":null,"waits":null,"busiest":null,"errors":null,"rules":null,"name":null,"up_ms":null`),
		one("fields of a later version", `,"later":{"a":[1]},"rules":{"version":3,"since":5},"busiest":[{"customer":"acme","documents":1,"rule":"load","level":2,"load":3,"of":"x"}]`),
		{Name: "in any order, with spaces", Text: " {\n\t\"levels\" : 3, \"by_load\" : { \"2\" : 1 , \"1\" : 4 },\r\n \"format\" : 1 } "},
		one("another language, class of errors and level than today's", `,"language":"rust","errors":{"shed":7},"by_load":{"300":1}`),
		one("a rule that is not known", `,"busiest":[{"customer":"acme","documents":5,"rule":"weight","level":2,"weight":7}]`),
		one("the largest numbers", `,"by_count":{"999":1000000000000000},"up_ms":1000000000000,"waits":{"1":{"0":1,"107":1000000000000000}}`),
		one("customers' names", `,"busiest":[{"customer":"\u0000\"<>\u2028😀","documents":3,"rule":"count","level":1,"count":-5},{"customer_base64":"/w==","documents":2,"rule":"load","level":1,"load":1e-06},{"customer":"","documents":1,"rule":"load","level":1,"load":0}]`),

		{Name: "junk: nothing", Text: ""},
		{Name: "junk: no object", Text: `[]`},
		{Name: "junk: null", Text: `null`},
		{Name: "junk: cut off", Text: `{"format":1,"id":"a1","levels":9,"by_lo`},
		{Name: "junk: two", Text: `{"format":1,"levels":9}{"format":1,"levels":9}`},
		{Name: "junk: deep", Text: `{"format":1,"levels":9,"x":` + strings.Repeat("[", 2000)},
		{Name: "no format", Text: `{"levels":9}`},
		{Name: "a later format", Text: `{"format":2,"levels":9}`},
		{Name: "no levels", Text: `{"format":1}`},
		{Name: "a thousand levels", Text: `{"format":1,"levels":1000}`},
		one("level 0", `,"by_count":{"0":1}`),
		one("level 1000", `,"by_load":{"1000":1}`),
		one("level x", `,"by_load":{"x":1}`),
		one("fewer documents than none", `,"by_load":{"1":-1}`),
		one("too many documents", `,"by_count":{"1":1000000000000001}`),
		one("half a document", `,"by_count":{"1":0.5}`),
		one("documents in words", `,"by_count":{"1":"1"}`),
		one("not a number", `,"by_count":{"1":NaN}`),
		one("a bucket behind the last", `,"waits":{"1":{"108":1}}`),
		one("a bucket before the first", `,"waits":{"1":{"-1":1}}`),
		one("a wait of level 0", `,"waits":{"0":{"1":1}}`),
		one("too many waits", `,"waits":{"1":{"1":1e30}}`),
		one("fewer errors than none", `,"errors":{"error":-1}`),
		one("fewer overridden than none", `,"overridden":-1`),
		one("fewer by a fallback than none", `,"fallback":-1`),
		one("it joined later", `,"up_ms":-1`),
		one("a window of less than nothing", `,"window_ms":-1`),
		one("a customer with fewer documents than none", `,"busiest":[{"customer":"acme","documents":-1}]`),
		one("a customer that is no Base64", `,"busiest":[{"customer_base64":"%"}]`),
		one("busiest is no list", `,"busiest":{}`),
	}
}

// reads.report is what a report's JSON comes to when it is written again.
func readsOf(t *testing.T) []readVector {
	vectors := readVectors()
	for i := range vectors {
		if r := (found{"a1", vectors[i].Text, 0}).report(); r.Err == nil {
			vectors[i].Report = fieldsOf(t, r)
		}
	}
	return vectors
}

// fieldsOf returns the fields of a report's JSON.
func fieldsOf(t *testing.T, r Report) (f map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(must(encode(r))))
	decoder.UseNumber()
	if err := decoder.Decode(&f); err != nil {
		t.Fatal(err)
	}
	for i, b := range r.Busiest {
		if b.Rule == priority.Unknown {
			shown := f["busiest"].([]any)[i].(map[string]any)
			delete(shown, "load")
			shown["rule"] = "unknown"
		}
	}
	return f
}

func sumsOf(t *testing.T) []sumVector {
	aged := func(age int64, fields string) agedText {
		return agedText{age, json.RawMessage(`{"format":1,"levels":9` + fields + `}`)}
	}
	waits := func(buckets string) agedText { return aged(0, `,"overrides":true,"waits":{"4":{`+buckets+`}}`) }
	vectors := []sumVector{
		{Name: "nobody", Reports: []agedText{}},
		{Name: "a mixed fleet", Reports: []agedText{
			aged(1000, `,"name":"w1","language":"go","overrides":true,"rules":{"version":12,"error":""},"window_ms":58250,"by_count":{"1":10,"9":3},"by_load":{"4":100},"overridden":3,"fallback":2,"errors":{"not_counted":1},"waits":{"4":{"31":5,"32":1}}`),
			aged(4000, `,"name":"w2","language":"python","overrides":true,"degraded":true,"rules":{"version":12,"error":""},"window_ms":55000,"by_count":{"1":1},"by_load":{"4":1,"5":2},"overridden":1,"errors":{"not_counted":2,"invalid":1},"waits":{"4":{"32":4,"107":1},"1":{"0":1}}`),
			aged(2000, `,"name":"w3","language":"nodejs","overrides":false,"rules":{"version":11,"error":"its queue has 3 levels, the rules 9"},"window_ms":1000,"by_load":{"1":7}`),
			aged(0, `,"name":"w4","overrides":true,"rules":{"version":0,"error":"Redis does not answer"}`),
			aged(0, `,"name":"w5","overrides":true,"by_load":{"1":-1}`),
			{0, json.RawMessage(`{"format":2,"by_load":{"1":50}}`)},
		}},
		{Name: "customers: documents are added, the newest report's level holds", Reports: []agedText{
			aged(3000, `,"overrides":true,"busiest":[{"customer":"acme","documents":5,"rule":"load","level":9,"load":99},{"customer":"b","documents":5,"rule":"load","level":2,"load":3}]`),
			aged(1000, `,"overrides":true,"busiest":[{"customer":"acme","documents":2,"rule":"count","level":1,"count":-2},{"customer":"c","documents":5,"rule":"load","level":3,"load":9}]`),
			aged(2000, `,"overrides":true,"busiest":[{"customer":"a","documents":5,"rule":"load","level":2,"load":4},{"customer":"acme","documents":1,"rule":"load","level":4,"load":70},{"customer_base64":"/w==","documents":1,"rule":"load","level":1,"load":1}]`),
		}},
		{Name: "waits: one", Reports: []agedText{waits(`"40":1`)}},
		{Name: "waits: two", Reports: []agedText{waits(`"40":1`), waits(`"50":1`)}},
		{Name: "waits: the median of three, and of four", Reports: []agedText{waits(`"1":1,"9":1,"10":1`), aged(0, `,"waits":{"5":{"1":2,"9":1,"10":1}}`)}},
		{Name: "waits: 19 of 20", Reports: []agedText{waits(`"20":19`), waits(`"100":1`)}},
		{Name: "waits: 20 of 21", Reports: []agedText{waits(`"20":19`), waits(`"100":2`)}},
		{Name: "waits: none in a bucket", Reports: []agedText{waits(`"3":0,"20":1,"21":0`), waits(`"3":0`)}},
	}
	for i, v := range vectors {
		var reports []Report
		for _, r := range v.Reports {
			reports = append(reports, found{"", string(r.Report), time.Duration(r.Age) * time.Millisecond}.report())
		}
		sum := Add(reports)
		totals := &sumOfTexts{
			sum.Reports, sum.Unreadable, sum.Degraded, sum.IgnoreOverrides, sum.Following, sum.NotFollowing, sum.Window.Milliseconds(),
			sum.ByCount, sum.ByLoad, sum.Overridden, sum.Fallback, sum.Errors, make(map[priority.Level]sumOfWaits), sum.Busiest,
		}
		for level, h := range sum.Waits {
			maps.DeleteFunc(h, func(_ int, n int64) bool { return n == 0 })
			totals.Waits[level] = sumOfWaits{h, h.Count(), bucketThatEnds(t, h.Median()), bucketThatEnds(t, h.P95())}
		}
		vectors[i].Totals = totals
	}
	return vectors
}

func bucketThatEnds(t *testing.T, wait time.Duration) int {
	t.Helper()
	for i := range lastBucket + 1 {
		if (Histogram{i: 1}).Median() == wait {
			return i
		}
	}
	t.Fatalf("%v is the end of no bucket", wait)
	return 0
}

// bucketVectors are the first and the last millisecond of each bucket that has any.
func bucketVectors() (pairs [][2]int64) {
	times := map[int64]bool{0: true, 1e9: true, 1e12: true}
	for i := range lastBucket + 1 {
		end := int64(math.Floor(math.Pow(2, float64(i)/4)))
		times[end], times[end+1] = true, true
	}
	for _, ms := range slices.Sorted(maps.Keys(times)) {
		pairs = append(pairs, [2]int64{ms, int64(bucketOf(time.Duration(ms) * time.Millisecond))})
	}
	return pairs
}

func writeVectors() []writeVector {
	next := func(at int64, customer string, count int64, levels ...priority.Level) writeStep {
		return writeStep{At: at, Do: "next", Customer: customer, Count: &count, Levels: levels}
	}
	submit := func(at int64, customer string, load float64, levels ...priority.Level) writeStep {
		return writeStep{At: at, Do: "submit", Customer: customer, Load: &load, Levels: levels}
	}
	done := func(at int64, ended ...[2]int64) writeStep {
		return writeStep{At: at, Do: "done", Customer: "acme", Ended: ended}
	}
	failed := func(at int64, class string, n int) writeStep {
		return writeStep{At: at, Do: "error", Customer: "acme", Class: class, Documents: n}
	}
	report := func(at int64) writeStep { return writeStep{At: at, Do: "report"} }
	overridden := func(s writeStep) writeStep { s.Overridden = true; return s }
	byFallback := func(s writeStep) writeStep { s.Fallback = true; return s }
	raw := func(s writeStep, customer string) writeStep {
		s.Customer, s.Base64 = "", base64.StdEncoding.EncodeToString([]byte(customer))
		return s
	}
	many := []writeStep{}
	for i := range 25 {
		many = append(many, submit(0, fmt.Sprintf("customer-%d", i), float64(i), slices.Repeat([]priority.Level{1}, 1+i%7)...))
	}
	return []writeVector{
		{"nothing", []writeStep{report(0), report(2500), report(5000), report(59_750), report(60_000), report(64_750), report(3_600_000), report(3_602_500)}},
		{"documents by rule and level", []writeStep{
			next(0, "acme", 0, 1), next(1, "acme", -3, 1, 1, 2), submit(2, "globex", 40.5, 4), submit(3, "globex", 812.5, 4, 5, 6, 22),
			submit(4, "initech", 1.0/3, 1), report(1000),
		}},
		{"the window is of twelve steps", []writeStep{
			next(0, "acme", 0, 1), next(4999, "acme", -1, 2), next(5000, "acme", -2, 3), report(5000), next(59_999, "acme", -3, 4), report(60_000),
			next(60_000, "acme", -4, 5), report(64_750), report(65_000), report(114_750), report(115_000), report(120_000), next(600_000, "acme", 0, 1), report(601_000),
		}},
		{"all that is over is forgotten", []writeStep{
			overridden(submit(0, "acme", 2, 9)), failed(0, "error", 2), done(0, [2]int64{5000, 4}), next(10*second, "b", 0, 1), report(10 * second), report(minute), report(70 * second),
		}},
		{"overrides", []writeStep{overridden(next(0, "acme", -2, 7, 7, 7)), overridden(submit(0, "acme", 3, 1)), submit(0, "b", 3, 2), report(0)}},
		{"a fallback", []writeStep{byFallback(next(0, "acme", -1, 1, 1)), byFallback(overridden(submit(1, "acme", 0, 7))), submit(2, "b", 1, 1), report(1000)}},
		{"errors are no documents", []writeStep{
			failed(0, "invalid", 1), failed(1, "not_counted", 3), failed(2, "outcome_unknown", 1), failed(3, "corrupt_count", 2), failed(4, "error", 1),
			failed(6000, "not_counted", 1), next(6000, "acme", 0, 1), report(7000),
		}},
		{"waits by level", []writeStep{
			done(0, [2]int64{0, 1}, [2]int64{1, 1}, [2]int64{2, 1}), done(1, [2]int64{5000, 4}), done(2, [2]int64{5000, 4}, [2]int64{5792, 4}, [2]int64{5793, 4}),
			done(7000, [2]int64{5001, 4}, [2]int64{86_400_000, 22}, [2]int64{864_000_000, 22}), report(8000), report(minute),
		}},
		{"the busiest customers", append(many, report(1000))},
		{"the busiest: by documents, then the later level, then the name's bytes", []writeStep{
			next(0, "z", -1, 1, 1), next(0, "ü", -1, 1, 1), raw(next(0, "", -1, 1, 1), "\xff"), raw(next(0, "", -1, 1, 1), "\xed\xa0\x80"), next(0, "a", -1, 1, 1), next(0, "aa", -1, 1, 1),
			next(0, "Z", -1, 1, 1), next(0, "😀", -1, 1, 1), next(0, "\uffff", -1, 1, 1), next(0, "b", -1, 1, 2), submit(0, "c", 9, 1, 1, 1), report(0),
		}},
		{"the busiest: the last decision is told", []writeStep{
			next(0, "acme", -9, 5), submit(1, "acme", 600, 6), submit(2, "b", 600, 6), next(3, "b", -9, 5), report(1000),
			submit(5000, "b", 2.000001, 2), next(5001, "acme", -3, 1, 2), report(6000), report(minute), report(65 * second),
		}},
	}
}

var errorsByClass = map[string]error{
	"invalid": priority.ErrInvalidCustomer, "not_counted": priority.ErrNotCounted, "outcome_unknown": priority.ErrOutcomeUnknown,
	"corrupt_count": priority.ErrCorruptCount, "error": errors.New("another one"),
}

// writesOf does the steps on a collector.
func writesOf(t *testing.T) []writeVector {
	vectors := writeVectors()
	for _, v := range vectors {
		joined := time.Now()
		c := newCollector(joined)
		for i := range v.Steps {
			step := &v.Steps[i]
			now := joined.Add(time.Duration(step.At) * time.Millisecond)
			if step.Do == "report" {
				step.Report = maps.Clone(fieldsOf(t, c.report(now)))
				maps.DeleteFunc(step.Report, func(name string, _ any) bool { return !slices.Contains(fieldsOfWindow, name) })
				continue
			}
			call, customer := step.call(now), step.Customer
			if step.Base64 != "" {
				customer = string(must(base64.StdEncoding.DecodeString(step.Base64)))
			}
			call.Customers = []string{customer}
			c.observe(context.Background(), call)
		}
	}
	return vectors
}

var fieldsOfWindow = []string{"up_ms", "window_ms", "by_count", "by_load", "overridden", "fallback", "errors", "waits", "busiest"}

func (s writeStep) call(now time.Time) observe.Call {
	call := observe.Call{Operation: "NextN", Start: now, Items: len(s.Levels)}
	if s.Do == "submit" {
		call.Operation = "SubmitN"
	}
	for _, level := range s.Levels {
		d := priority.Decision{Level: level, Degraded: s.Fallback}
		if s.Overridden {
			d.Ruled = 1
		}
		if s.Count != nil {
			d.Count = *s.Count
		} else {
			d.Load = *s.Load
		}
		call.Decisions = append(call.Decisions, d)
	}
	for _, e := range s.Ended {
		call.Operation = "DoneN"
		call.Ended = append(call.Ended, priority.Ended{Sojourn: time.Duration(e[0]) * time.Millisecond, Level: priority.Level(e[1])})
	}
	if s.Do == "error" {
		call.Items, call.Err = s.Documents, errorsByClass[s.Class]
	}
	return call
}

func TestReportVectors(t *testing.T) {
	reads, sums, writes := readsOf(t), sumsOf(t), writesOf(t)
	const file = "../vectors/reports.json"
	want := fmt.Sprintf("{\"reads\": %s,\n\"sums\": %s,\n\"buckets\": %s,\n\"writes\": %s}\n", lines(reads), lines(sums), must(encode(bucketVectors())), lines(writes))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what its cases come to (%v): run go test ./fleet -update and look at the difference", file, err)
	}
}

// lines returns JSON with each item of a list in a line of its own.
func lines[T any](items []T) string {
	var texts []string
	for _, item := range items {
		texts = append(texts, string(must(encode(item))))
	}
	return "[\n" + strings.Join(texts, ",\n") + "\n]"
}
