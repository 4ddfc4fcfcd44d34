//go:build !race

package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/lab/internal/trace"
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

func TestTrace_MissingServiceTimes(t *testing.T) {
	for _, test := range []struct {
		name    string
		options TraceOptions
		want    []int // service times, in seconds
	}{
		{"median", TraceOptions{}, []int{1, 3, 90, 3}},
		{"capped", TraceOptions{Cap: 2 * time.Second}, []int{1, 2, 2, 2}},
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
}

func TestTrace_LightCustomers(t *testing.T) {
	w := read(t, smallTrace).Workload(TraceOptions{LightDocuments: 2}, 1)
	if !slices.Equal(w.GroupOf, []uint8{1, 0}) {
		t.Errorf("groups %v, want a heavy and b light", w.GroupOf)
	}
}

func TestTrace_Random(t *testing.T) {
	for text, want := range map[string]bool{"0,a,1\n": false, "0,a,1\n0,a\n": false, "0,a\n": true} {
		if got := read(t, text).Random(); got != want {
			t.Errorf("%q: random is %v", text, got)
		}
	}
}
