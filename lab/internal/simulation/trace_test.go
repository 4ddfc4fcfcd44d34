//go:build !race

package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/trace"
)

const smallTrace = `submitted_ms,customer,service_ms
0,a,1000
500,b,
500,a,90000
700,a,3000
`

func read(t *testing.T, text string) *Trace {
	t.Helper()
	read, err := ReadTrace(trace.Read("trace", strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestMissingServiceTimesAreFilledIn(t *testing.T) {
	drawn := ServiceTime{Shape: Fixed, Mean: 7 * time.Second}
	for _, test := range []struct {
		name    string
		options TraceOptions
		want    []int // service times, in seconds
	}{
		{"median", TraceOptions{Missing: MissingMedian, Service: drawn}, []int{1, 3, 90, 3}},
		{"capped", TraceOptions{Missing: MissingMedian, Cap: 2 * time.Second, Service: drawn}, []int{1, 2, 2, 2}},
		{"drawn", TraceOptions{Missing: MissingDrawn, Cap: time.Minute, Service: drawn}, []int{1, 7, 60, 3}},
		{"left out", TraceOptions{Missing: MissingLeft, Service: drawn}, []int{1, 90, 3}},
	} {
		w := read(t, smallTrace).Workload(test.options, 1)
		var got []int
		for _, d := range w.Documents {
			got = append(got, int(d.Service/time.Second))
		}
		if !slices.Equal(got, test.want) || w.To != 700*time.Millisecond+1 {
			t.Errorf("%s: service times %v until %v, want %v", test.name, got, w.To, test.want)
		}
	}
	w := read(t, "0,a\n1,b\n").Workload(TraceOptions{Missing: MissingMedian, Service: drawn}, 1)
	if w.Documents[0].Service != drawn.Mean || w.Documents[1].Service != drawn.Mean {
		t.Errorf("without any service time: %+v", w.Documents)
	}
}

func TestLightCustomersHaveFewDocuments(t *testing.T) {
	w := read(t, smallTrace).Workload(TraceOptions{Missing: MissingLeft, LightDocuments: 2, Service: demand.Service}, 1)
	if !slices.Equal(w.GroupOf, []uint8{1, 0}) {
		t.Errorf("groups %v, want a heavy and b light", w.GroupOf)
	}
}

func TestOnlyDrawnServiceTimesDependOnTheSeed(t *testing.T) {
	full, empty := "0,a,1\n", "0,a\n"
	for _, test := range []struct {
		text, missing string
		want          bool
	}{
		{full, MissingDrawn, false}, {full + empty, MissingDrawn, true}, {full + empty, MissingMedian, false},
		{empty, MissingMedian, true}, {empty, MissingLeft, false},
	} {
		if got := read(t, test.text).Random(TraceOptions{Missing: test.missing}); got != test.want {
			t.Errorf("%q, %s: random is %v", test.text, test.missing, got)
		}
	}
}

func TestABadTraceIsRefused(t *testing.T) {
	_, err := ReadTrace(trace.Read("trace", strings.NewReader("0,a\nsoon,a\n")))
	if want := `trace:2: submitted_ms is "soon", not a whole number`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
