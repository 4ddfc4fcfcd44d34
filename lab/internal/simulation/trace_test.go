//go:build !race

package simulation

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const smallTrace = `submitted_ms,customer,service_ms
0,a,1000
500,"b
c",
500,a,90000
700,a,3000
`

func read(t *testing.T, text string) *Trace {
	t.Helper()
	read, err := ReadTrace("-", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func zipped(text string) string {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write([]byte(text))
	_ = writer.Close()
	return out.String()
}

func TestReadTrace(t *testing.T) {
	want := &Trace{[]string{"a", "b\nc"}, []Document{
		{0, 0, time.Second, 0}, {1, 500 * time.Millisecond, unknown, 0}, {0, 500 * time.Millisecond, 90 * time.Second, 0}, {0, 700 * time.Millisecond, 3 * time.Second, 0},
	}}
	file := filepath.Join(t.TempDir(), "trace.csv")
	for _, text := range []string{smallTrace, zipped(smallTrace), strings.ReplaceAll(smallTrace, "\n", "\r\n")} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadTrace(file, nil); err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(read(t, text), want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestReadTrace_Log(t *testing.T) {
	const log = "; Version: 2\n\n  1  5 -1 90 4 -1 -1 4 100 -1 1 7 1 -1 1 1 -1 -1\n 2 6 3 -1 4 -1 -1 4 100 -1 1 8 1 -1 1 1 -1 -1\n"
	want := &Trace{[]string{"7", "8"}, []Document{{0, 5 * time.Second, 90 * time.Second, 0}, {1, 6 * time.Second, unknown, 0}}}
	if !reflect.DeepEqual(read(t, log), want) || !reflect.DeepEqual(read(t, zipped(log)), want) {
		t.Errorf("got %+v, want %+v", read(t, log), want)
	}
}

func TestReadTrace_Error(t *testing.T) {
	for trace, want := range map[string]string{
		"0,a\n1\n":                             "standard input:2: 1 fields, not submitted_ms,customer[,service_ms]",
		"0,a\n-1,a\n":                          `standard input:2: submitted_ms is "-1", not a whole number`,
		"submitted_ms,customer\n0,a,soon\n":    `standard input:2: service_ms is "soon", not a whole number`,
		"99999999999999,a\n":                   `standard input:1: submitted_ms is "99999999999999", not a whole number`,
		"0,a\n\n7,b\n6,a\n":                    "standard input:4: submitted_ms goes back from 7 to 6",
		"0,a\n1,,5\n":                          "standard input:2: the customer has 0 bytes, not 1 to 512",
		"0," + strings.Repeat("c", 513):        "standard input:1: the customer has 513 bytes, not 1 to 512",
		"; a log\n1 5 -1\n":                    "standard input:2: 3 fields, not 18",
		"0,a\n1,b\"c\n":                        `standard input:2: bare " in non-quoted-field`,
		zipped("0,a\n1,b\n")[:30]:              "standard input: after line 2: unexpected EOF",
		"\x1f\x8bnonsense that is long enough": "standard input: gzip: invalid header",
	} {
		if _, err := ReadTrace("-", strings.NewReader(trace)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := ReadTrace("-", iotest.ErrReader(io.ErrClosedPipe)); err == nil {
		t.Error("a closed pipe is no error")
	}
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
