package trace

import (
	"bytes"
	"compress/gzip"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const small = `submitted_ms,customer,service_ms
0,a,1000
500,"b
c",
500,a
`

var documents = []Document{
	{Submitted: 0, Customer: "a", Service: time.Second},
	{Submitted: 500 * time.Millisecond, Customer: "b\nc", Service: Unknown},
	{Submitted: 500 * time.Millisecond, Customer: "a", Service: Unknown},
}

func all(trace iter.Seq2[Document, error]) (read []Document, err error) {
	for d, err := range trace {
		if err != nil {
			return read, err
		}
		read = append(read, d)
	}
	return read, nil
}

func zipped(text string) string {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write([]byte(text))
	_ = writer.Close()
	return out.String()
}

func TestOpen(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"plain.csv": small, "zipped.csv.gz": zipped(small), "zipped-by-content": zipped(small), "plain.gz": small,
		"windows.csv": strings.ReplaceAll(small, "\n", "\r\n"),
	} {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, trace := range []iter.Seq2[Document, error]{
			Open(file, nil), Open("", strings.NewReader(text)), Open("-", strings.NewReader(text)),
		} {
			if got, err := all(trace); err != nil || !slices.Equal(got, documents) {
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
	}
}

func TestRead_Error(t *testing.T) {
	long := strings.Repeat("c", 513)
	for _, test := range []struct{ name, trace, want string }{
		{"one field", "0,a\n1\n", "trace:2: 1 fields, not submitted_ms,customer[,service_ms]"},
		{"no number", "submitted_ms,customer,service_ms\n0,a,\nsoon,a,\n", `trace:3: submitted_ms is "soon", not a whole number`},
		{"negative", "0,a\n-1,a\n", "trace:2: submitted_ms is -1, a negative number"},
		{"beyond 64 bits", "99999999999999999999,a\n", `trace:1: submitted_ms is "99999999999999999999", not a whole number`},
		{"back in time", "0,a\n\n7,b\n6,a\n", "trace:4: submitted_ms goes back from 7 to 6"},
		{"no customer", "0,a\n1,,5\n", "trace:2: the customer has 0 bytes, not 1 to 512"},
		{"long customer", "0," + long[:512] + "\n1," + long + "\n", "trace:2: the customer has 513 bytes, not 1 to 512"},
		{"quote", "0,a\n1,b\"c\n", `trace:2: bare " in non-quoted-field`},
		{"cut gzip", zipped("0,a\n1,b\n")[:30], "trace: after line 2: unexpected EOF"},
		{"no gzip", "\x1f\x8bnonsense that is long enough", "trace: gzip: invalid header"},
	} {
		if _, err := all(Read("trace", strings.NewReader(test.trace))); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
	if _, err := all(Open(filepath.Join(t.TempDir(), "none.csv"), nil)); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	if _, err := all(Read("trace", iotest.ErrReader(io.ErrClosedPipe))); err == nil || err.Error() != "trace: after line 0: io: read/write on closed pipe" {
		t.Errorf("no content: %v", err)
	}
}
