package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/docpriority/priority/internal/redistest"
)

// replayed runs the program on a trace from the standard input.
func replayed(trace string, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(args, strings.NewReader(trace), &out, &errs)
	return status, out.String(), errs.String()
}

// parsed runs the program with -json and returns the object that it prints.
func parsed(t *testing.T, trace string, args ...string) (status int, object map[string]any) {
	t.Helper()
	status, stdout, stderr := replayed(trace, append([]string{"-json"}, args...)...)
	if stderr != "" {
		t.Errorf("on stderr: %s", stderr)
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	if err := decoder.Decode(&object); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if decoder.More() {
		t.Errorf("more than one object: %s", stdout)
	}
	return status, object
}

var resetModes = []string{"last-update", "last-reset"}

func TestATraceThatCannotBeReadIsNotReported(t *testing.T) {
	for trace, want := range map[string]string{
		"0,a\n1\n":                "standard input:2: 1 fields, not submitted_ms,customer[,service_ms]",
		zipped("0,a\n1,b\n")[:30]: "standard input: after line 2: unexpected EOF",
	} {
		for _, format := range []string{"-json=true", "-json=false"} {
			status, stdout, stderr := replayed(trace, format, "-lua")
			if status != failed || stdout != "" || stderr != "replay: "+want+"\n" {
				t.Errorf("exit status %d, stdout %q, stderr %q; want %q", status, stdout, stderr, want)
			}
		}
	}
}

func TestMisuseIsTold(t *testing.T) {
	for _, args := range [][]string{
		{"-reset", "never"}, {"-nonsense"}, {"a.csv", "b.csv"}, {"a.csv", "-json"}, {"-redis"},
	} {
		status, stdout, stderr := replayed("", args...)
		if status != misused || stdout != "" || stderr == "" {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
	if status, stdout, stderr := replayed("", "-h"); status != succeeded || stdout != "" || !strings.Contains(stderr, "usage: replay") {
		t.Errorf("-h: exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if status, stdout, stderr := replayed("", "no such file"); status != failed || stdout != "" || !strings.Contains(stderr, "no such file") {
		t.Errorf("no such file: exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if status, stdout, stderr := replayed("0,a\n", "-redis", "127.0.0.1:1"); status != failed || stdout != "" || !strings.Contains(stderr, "127.0.0.1:1: ") {
		t.Errorf("no server: exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// In this trace "edge" comes back after exactly the interval, which is no reset,
// and after a millisecond more, which is one.
const edgeTrace = `submitted_ms,customer,service_ms
1000,edge,10
1000,other,
1501000,edge,10
1501000,edge,10
3001001,edge,10
3001001,other,20
3001001,other,
`

func TestTheJSONReport(t *testing.T) {
	for _, test := range []struct{ trace, want string }{
		{edgeTrace, `{"documents":7,"customers":2,` +
			`"levels":{"1":7,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0},"busiest":[` +
			`{"customer":"edge","documents":4,"levels":{"1":4,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0}},` +
			`{"customer":"other","documents":3,"levels":{"1":3,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0}}],` +
			`"lua":{"agrees":true}}` + "\n"},
		{"", `{"documents":0,"customers":0,` +
			`"levels":{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0},"busiest":[],"lua":{"agrees":true}}` + "\n"},
	} {
		if status, stdout, stderr := replayed(test.trace, "-json", "-lua"); status != succeeded || stdout != test.want || stderr != "" {
			t.Errorf("exit status %d, stderr %q, stdout\n got %s\nwant %s", status, stderr, stdout, test.want)
		}
	}
}

func TestTheTextReport(t *testing.T) {
	trace := strings.Repeat("0,flood\n", 25) + "1,\"a\nb\"\n2," + strings.Repeat("long", 20) + "\n"
	want := `27 documents of 3 customers; a count starts afresh
25m0s after the last reset.

level  documents  per cent
    1          5      18.5
    2          2       7.4
    3          2       7.4
    4          2       7.4
    5          2       7.4
    6          2       7.4
    7          2       7.4
    8          6      22.2
    9          4      14.8

The busiest customers, and the per cent of their documents at each level:

customer              documents    1    2    3    4    5    6    7    8    9
flood                        25   12    8    8    8    8    8    8   24   16
"a\nb"                        1  100    0    0    0    0    0    0    0    0
longlonglonglonglon…          1  100    0    0    0    0    0    0    0    0

The script in miniredis agrees with memory.Store on all 27 documents.
`
	if status, stdout, stderr := replayed(trace, "-reset", "last-reset", "-lua", "-"); status != succeeded || stdout != want || stderr != "" {
		t.Errorf("exit status %d, stderr %q, stdout\n%s\nwant\n%s", status, stderr, stdout, want)
	}
}

func TestATraceIsReadFromAFileOrStandardInput(t *testing.T) {
	const trace = "0,a\n1,b,7\n"
	file := filepath.Join(t.TempDir(), "trace.csv.gz")
	if err := os.WriteFile(file, []byte(zipped(trace)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, "-"} {
		if status, object := parsed(t, trace, name); status != succeeded || object["documents"] != 2.0 || object["customers"] != 2.0 {
			t.Errorf("%s: exit status %d, %v", name, status, object)
		}
	}
}

// randomTrace has gaps of all kinds around the interval.
func randomTrace(seed uint64, rows int) string {
	random := rand.New(rand.NewPCG(seed, 0))
	gaps := []int{0, 0, 0, 1, 250, 749_999, 750_000, 1_499_999, 1_500_000, 1_500_001, 1_500_002, 3_000_000}
	var trace strings.Builder
	now := 0
	for range rows {
		now += gaps[random.IntN(len(gaps))]
		customers := []string{"a", "b", "b%}", "c{", "\xff"}
		fmt.Fprintf(&trace, "%d,%s\n", now, customers[random.IntN(len(customers))])
	}
	return trace.String()
}

// floodTrace has many customers and few gaps.
func floodTrace(rows int) string {
	var trace strings.Builder
	for i := range rows {
		fmt.Fprintf(&trace, "%d,customer %d\n", i*900, i*i%31)
	}
	return trace.String()
}

func TestTheScriptAgreesWithMemory(t *testing.T) {
	traces := map[string]string{"edge": edgeTrace, "flood": floodTrace(500), "empty": ""}
	for seed := range uint64(5) {
		traces[fmt.Sprint("random ", seed)] = randomTrace(seed, 200)
	}
	double := miniredis.RunT(t)
	for _, mode := range resetModes {
		for name, trace := range traces {
			status, object := parsed(t, trace, "-reset", mode, "-lua", "-redis", double.Addr())
			if status != succeeded || !agrees(object, "lua") || !agrees(object, "redis") {
				t.Errorf("%s, %s: exit status %d: %v", name, mode, status, object)
			}
		}
	}
	if left := double.Keys(); len(left) > 0 {
		t.Errorf("keys left behind: %q", left)
	}
}

func TestTheScriptAgreesOnARealServer(t *testing.T) {
	running := redistest.Start(t)
	client := running.Client()
	if err := client.Set(t.Context(), "priority:{a}:count", -7, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range resetModes {
		for name, trace := range map[string]string{
			"edge": edgeTrace, "flood": floodTrace(2000), "random": randomTrace(9, 2000),
		} {
			status, object := parsed(t, trace, "-reset", mode, "-redis", running.Addr)
			if status != succeeded || !agrees(object, "redis") {
				t.Errorf("%s, %s: exit status %d: %v", name, mode, status, object)
			}
		}
	}
	left, err := client.Keys(t.Context(), "*").Result()
	if err != nil || fmt.Sprint(left) != "[priority:{a}:count]" || client.Get(t.Context(), left[0]).Val() != "-7" {
		t.Errorf("keys afterwards: %q, %v; want the server's own one as it was", left, err)
	}
}

func agrees(object map[string]any, server string) bool {
	found, _ := object[server].(map[string]any)
	return found["agrees"] == true && len(found) == 1
}

// serverThatKeepsKeys answers DEL, and deletes nothing.
func serverThatKeepsKeys(t *testing.T) string {
	double := miniredis.RunT(t)
	double.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
		if command != "DEL" {
			return false
		}
		peer.WriteInt(0)
		return true
	})
	return double.Addr()
}

func TestTheFirstDifferenceIsReported(t *testing.T) {
	address := serverThatKeepsKeys(t)
	status, object := parsed(t, edgeTrace, "-lua", "-redis", address)
	want := `{"agrees":false,"first_difference":{"customer":"edge","line":6,` +
		`"memory":{"count":0,"level":1},"server":{"count":-3,"level":2}}}`
	if got, _ := json.Marshal(object["redis"]); status != failed || string(got) != want || !agrees(object, "lua") {
		t.Errorf("exit status %d, redis\n got %s\nwant %s\nlua %v", status, got, want, object["lua"])
	}

	status, stdout, stderr := replayed(edgeTrace, "-redis", address)
	wantEnd := "\nThe script on the Redis server differs first at line 6, customer edge:\n" +
		"  memory.Store  level 1, count 0\n  the script    level 2, count -3\n"
	if status != failed || !strings.HasSuffix(stdout, wantEnd) || stderr != "" {
		t.Errorf("exit status %d, stderr %q, stdout\n%s\nwant at the end\n%s", status, stderr, stdout, wantEnd)
	}
}

func TestAnInterruptLeavesNoKeys(t *testing.T) {
	double := miniredis.RunT(t)
	calls := 0
	double.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if strings.HasPrefix(command, "EVAL") {
			if calls++; calls == 100 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
			}
		}
		return false
	})
	// The last row is far enough that the signal has certainly arrived before it.
	status, stdout, stderr := replayed(floodTrace(100_000), "-redis", double.Addr())
	if status != failed || stdout != "" || !strings.HasSuffix(stderr, ": interrupted\n") {
		t.Errorf("exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if left := double.Keys(); len(left) > 0 {
		t.Errorf("keys left behind: %q", left)
	}
}

// realTrace returns the path of a recorded trace, or skips the test.
func realTrace(t *testing.T) string {
	t.Helper()
	file := os.Getenv("PRIORITY_TRACE")
	if file == "" {
		t.Skip("PRIORITY_TRACE names no file of submitted_ms,customer,service_ms")
	}
	return file
}

// knownLevels has how many documents of a trace have each level, by the name of its file
// and the mode. They were counted by a program in another language.
var knownLevels = map[string]map[string][]float64{
	"google_borg_2011_day02.csv.gz": {
		"last-update": {2274, 896, 678, 580, 510, 458, 425, 982, 16814},
		"last-reset":  {5401, 2486, 2038, 1730, 1391, 1189, 1058, 2042, 6282},
	},
	"google_borg_2011_d01-07.csv.gz": {
		"last-update": {14426, 5451, 4060, 3495, 3018, 2734, 2452, 5454, 109008},
		"last-reset":  {33300, 14631, 11940, 10144, 7854, 6638, 5828, 11538, 48225},
	},
}

func TestARealServerAgreesOnARealTrace(t *testing.T) {
	file, running := realTrace(t), redistest.Start(t)
	known := knownLevels[filepath.Base(file)]
	for _, mode := range resetModes {
		status, object := parsed(t, "", "-reset", mode, "-redis", running.Addr, file)
		if status != succeeded || !agrees(object, "redis") {
			t.Errorf("%s: exit status %d: %v", mode, status, object)
		}
		got, _ := object["levels"].(map[string]any)
		for i, want := range known[mode] {
			if got[fmt.Sprint(i+1)] != want {
				t.Errorf("%s: the levels of the documents are %v, want %v", mode, got, known[mode])
				break
			}
		}
	}
}

func zipped(text string) string {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write([]byte(text))
	_ = writer.Close()
	return out.String()
}
