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
	hour   = 60 * minute
	day    = 24 * hour
)

// The format of reports.json; vectors/README.md describes it.
type (
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
		Pending    int64            `json:"pending,omitempty"`         // likewise
		Overridden bool             `json:"overridden,omitempty"`
		Fallback   bool             `json:"fallback,omitempty"`
		Ended      [][2]int64       `json:"ended,omitempty"` // of done: milliseconds, level
		Class      string           `json:"class,omitempty"` // of error
		Documents  int              `json:"documents,omitempty"`
		Report     map[string]any   `json:"report,omitempty"`
		History    map[string]int64 `json:"history,omitempty"` // what is added to it
		Ending     bool             `json:"ending,omitempty"`
	}
)

// fieldsOf returns the fields of a report's JSON.
func fieldsOf(t *testing.T, r Report) (f map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(must(encode(r))))
	decoder.UseNumber()
	if err := decoder.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
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
	history := func(at int64) writeStep { return writeStep{At: at, Do: "history"} }
	overridden := func(s writeStep) writeStep { s.Overridden = true; return s }
	byFallback := func(s writeStep) writeStep { s.Fallback = true; return s }
	raw := func(s writeStep, customer string) writeStep {
		s.Customer, s.Base64 = "", base64.StdEncoding.EncodeToString([]byte(customer))
		return s
	}
	pending := func(n int64, s writeStep) writeStep { s.Pending = n; return s }
	// Twelve customers with a backlog, and twelve who were busy before; then 25 who are busy.
	busy := []writeStep{}
	for i := range 12 {
		busy = append(busy, pending(int64(10+i), submit(0, fmt.Sprintf("backlog-%d", i), 5, 1)),
			next(0, fmt.Sprintf("before-%d", i), 0, slices.Repeat([]priority.Level{2}, 2+i/2)...))
	}
	for i := range 25 {
		busy = append(busy, pending(3, submit(10*minute, fmt.Sprintf("busy-%d", i), float64(i), slices.Repeat([]priority.Level{1}, 1+i%7)...)))
	}
	return []writeVector{
		{"nothing", []writeStep{report(0), report(2500), report(5000), report(59_750), report(60_000), report(64_750), report(hour), report(hour + 2500)}},
		{"documents by rule and level", []writeStep{
			next(0, "acme", 0, 1), next(1, "acme", -3, 1, 1, 2), submit(2, "globex", 40.5, 4), pending(7, submit(3, "globex", 812.5, 4, 5, 6, 22)),
			submit(4, "initech", 1.0/3, 1), report(1000),
		}},
		{"the window is of twelve steps", []writeStep{
			next(0, "acme", 0, 1), next(4999, "acme", -1, 2), next(5000, "acme", -2, 3), report(5000), next(59_999, "acme", -3, 4), report(minute),
			next(minute, "acme", -4, 5), report(64_750), report(65_000), report(114_750), report(115_000), report(2 * minute), next(10*minute, "acme", 0, 1), report(601_000),
		}},
		{"the hour is of twelve parts", []writeStep{
			next(0, "acme", 0, 1), done(0, [2]int64{5, 1}, [2]int64{5, 2}), next(5*minute-1, "acme", -2, 2, 3), report(5*minute - 1), next(5*minute, "acme", -3, 2),
			done(5*minute, [2]int64{5, 1}, [2]int64{9, 1}), report(5 * minute), next(57*minute, "acme", 0, 1), report(hour - 1), report(hour), report(hour + 5*minute), report(115 * minute),
		}},
		{"all that is over is forgotten", []writeStep{
			overridden(pending(3, submit(0, "acme", 2, 9))), failed(0, "error", 2), done(0, [2]int64{5000, 4}), next(10*second, "b", 0, 1), report(10 * second), report(minute), report(70 * second),
			report(hour), report(day), report(day + 1),
		}},
		{"overrides", []writeStep{overridden(next(0, "acme", -2, 7, 7, 7)), overridden(submit(0, "acme", 3, 1)), submit(0, "b", 3, 2), report(0)}},
		{"a fallback", []writeStep{byFallback(next(0, "acme", -1, 1, 1)), byFallback(overridden(submit(1, "acme", 0, 7))), submit(2, "b", 1, 1), report(1000)}},
		{"errors are no documents", []writeStep{
			failed(0, "invalid", 1), failed(1, "not_counted", 3), failed(2, "outcome_unknown", 1), failed(3, "corrupt", 2), failed(4, "error", 1),
			failed(6000, "not_counted", 1), next(6000, "acme", 0, 1), report(7000),
		}},
		{"waits by level", []writeStep{
			done(0, [2]int64{0, 1}, [2]int64{1, 1}, [2]int64{2, 1}), done(1, [2]int64{5000, 4}), done(2, [2]int64{5000, 4}, [2]int64{5792, 4}, [2]int64{5793, 4}),
			done(7000, [2]int64{5001, 4}, [2]int64{86_400_000, 22}, [2]int64{864_000_000, 22}), report(8000), report(minute),
		}},
		{"the history gets each step that is over once, while it is in the window", []writeStep{
			history(0), next(0, "acme", -3, 1, 1, 2), byFallback(submit(4999, "b", 1, 1)), history(4999), done(5000, [2]int64{5, 2}, [2]int64{6, 2}, [2]int64{8, 22}, [2]int64{864_000_000, 1}, [2]int64{0, 1}),
			history(5000), history(9999), history(10 * second), next(10*second, "acme", -4, 3), history(55 * second), next(56*second, "acme", -5, 4), next(60*second, "acme", -5, 5),
			history(120*second - 1), next(120*second, "acme", 0, 1), history(121 * second), {At: 122 * second, Do: "history", Ending: true}, {At: 123 * second, Do: "history", Ending: true},
		}},
		{"the busiest, then backlogs, then the busiest before", append(busy, report(10*minute+1000))},
		{"the busiest: by documents, then the later level, then the name's bytes", []writeStep{
			next(0, "z", -1, 1, 1), next(0, "ü", -1, 1, 1), raw(next(0, "", -1, 1, 1), "\xff"), raw(next(0, "", -1, 1, 1), "\xed\xa0\x80"), next(0, "a", -1, 1, 1), next(0, "aa", -1, 1, 1),
			next(0, "Z", -1, 1, 1), next(0, "😀", -1, 1, 1), next(0, "\uffff", -1, 1, 1), next(0, "b", -1, 1, 2), submit(0, "c", 9, 1, 1, 1), report(0),
		}},
		{"the last decision, by whichever rule", []writeStep{
			next(0, "acme", -9, 5), pending(4, submit(1, "acme", 600, 6)), pending(4, submit(2, "b", 600, 6)), next(3, "b", -9, 5), report(1000),
			submit(5000, "b", 2.000001, 2), next(5001, "acme", -3, 1, 2), report(6000), report(minute), report(65 * second),
		}},
	}
}

var errorsByClass = map[string]error{
	"invalid": priority.ErrInvalid, "not_counted": priority.ErrNotCounted, "outcome_unknown": priority.ErrOutcomeUnknown,
	"corrupt": priority.ErrCorrupt, "error": errors.New("another one"),
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
				var r Report
				c.fill(&r, now)
				step.Report = fieldsOf(t, r)
				maps.DeleteFunc(step.Report, func(name string, _ any) bool { return !slices.Contains(fieldsOfWindow, name) })
				continue
			}
			if step.Do == "history" {
				fields, added := c.history(now, step.Ending)
				added()
				step.History = make(map[string]int64)
				for pair := range slices.Chunk(fields, 2) {
					step.History[pair[0].(string)] = pair[1].(int64)
				}
				continue
			}
			call, customer := step.call(now), step.Customer
			if step.Base64 != "" {
				customer = string(must(base64.StdEncoding.DecodeString(step.Base64)))
			}
			call.Customer = customer
			c.observe(context.Background(), call)
		}
	}
	return vectors
}

var fieldsOfWindow = []string{"up_ms", "window_ms", "by_count", "by_load", "overridden", "fallback", "errors", "waits", "first_hour", "submitted_hour", "ended_hour", "busiest"}

func (s writeStep) call(now time.Time) observe.Call {
	call := observe.Call{Operation: "NextN", Start: now, Items: len(s.Levels)}
	if s.Do == "submit" {
		call.Operation = "SubmitN"
	}
	for _, level := range s.Levels {
		d := priority.Decision{Level: level, Degraded: s.Fallback, RuleLevel: level}
		if s.Overridden {
			d.RuleLevel++
		}
		if s.Count != nil {
			d.Count = *s.Count
		} else {
			d.Load, d.Pending = *s.Load, s.Pending
		}
		call.Decisions = append(call.Decisions, d)
	}
	for _, e := range s.Ended {
		call.Operation = "DoneN"
		call.Ended = append(call.Ended, priority.Ended{Latency: time.Duration(e[0]) * time.Millisecond, Level: priority.Level(e[1])})
	}
	if s.Do == "error" {
		call.Items, call.Err = s.Documents, errorsByClass[s.Class]
	}
	return call
}

func TestReportVectors(t *testing.T) {
	const file = "../vectors/reports.json"
	want := fmt.Sprintf("{\"buckets\": %s,\n\"writes\": %s}\n", must(encode(bucketVectors())), lines(writesOf(t)))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what its cases come to (%v): run go test ./fleet -update and look at the difference", file, err)
	}
}

// lines returns JSON with a line for each item of a list.
func lines[T any](items []T) string {
	var texts []string
	for _, item := range items {
		texts = append(texts, string(must(encode(item))))
	}
	return "[\n" + strings.Join(texts, ",\n") + "\n]"
}
