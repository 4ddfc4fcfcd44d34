//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// serviceTrace is twelve hours of a small service: 20 shops send 3 documents at a
// time, 3 archives send 5 long ones, and one customer uploads 200 now and then.
func serviceTrace() string {
	type row struct {
		submitted, service int
		customer           string
	}
	var rows []row
	random := rand.New(rand.NewPCG(1, 1))
	const minute = 60_000
	send := func(name string, customers, documents, every, service int) {
		for i := range customers {
			for at := random.IntN(every); at < 12*60*minute; at += every*4/5 + random.IntN(every*2/5) {
				for range documents {
					rows = append(rows, row{at, service/2 + random.IntN(service), fmt.Sprint(name, i+1)})
				}
			}
		}
	}
	send("shop", 20, 3, 12*minute, 4_000)
	send("archive", 3, 5, 14*minute, 100_000)
	send("upload", 1, 200, 90*minute, 4_000)
	slices.SortStableFunc(rows, func(a, b row) int { return a.submitted - b.submitted })
	text := "submitted_ms,customer,service_ms\n"
	for _, r := range rows {
		text += fmt.Sprintf("%d,%s,%d\n", r.submitted, r.customer, r.service)
	}
	return text
}

// tuneFlags are those of the page.
var tuneFlags = []string{"-servers", "3", "-service-cap", "3m", "-light", "250"}

func TestThePageShowsWhatTunePrints(t *testing.T) {
	page, err := os.ReadFile("../../docs/priorityctl.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("trace.csv", []byte(serviceTrace()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"tune", "trace.csv"}, tuneFlags...)
	want := "$ priorityctl " + strings.Join(args, " ") + "\n" + succeeded(t, "", args...)
	fits(t, want)
	if !strings.Contains(string(page), "```text\n"+want+"```\n") {
		t.Errorf("docs/priorityctl.md does not show\n%s", want)
	}
}

func TestTuneSaysTheSameInJSON(t *testing.T) {
	args := append([]string{"tune", "-"}, tuneFlags...)
	text := succeeded(t, serviceTrace(), args...)
	var object struct {
		Call, Reason, Verdict, Go string
		Servers                   int
		Choices                   []struct{ Call, Title string }
	}
	if err := json.Unmarshal([]byte(succeeded(t, serviceTrace(), append(args, "-json")...)), &object); err != nil {
		t.Fatal(err)
	}
	if object.Call != "Submit" || object.Reason != "submit is better" || object.Servers != 3 || len(object.Choices) < 2 {
		t.Errorf("got %+v", object)
	}
	words := strings.Join(strings.Fields(text), " ")
	if !strings.Contains(words, object.Verdict) || !strings.HasSuffix(text, object.Go) {
		t.Errorf("%s\n%s\nis not in\n%s", object.Verdict, object.Go, text)
	}
}

func TestWhatTunePrintsInJSONIsThePolicyOfOtherCommands(t *testing.T) {
	o, client := started(t)
	count(t, client, map[string]int{"acme": 5})
	tuned := succeeded(t, "0,a\n1000,b\n2000,c\n3000,a\n", "tune", "-", "-json", "-thresholds", "-2,-9")
	name := file(t, "tuned.json", tuned)
	for _, call := range [][]string{{"get", "acme"}, {"list"}, {"top"}} {
		byFile := o.told(call[0], append(call[1:], "-policy", name)...)
		if text := o.pipe(tuned, call[0], append(call[1:], "-policy", "-")...); !strings.Contains(text+byFile, "acme") {
			t.Errorf("%q prints\n%s", call, text)
		}
	}
	if text := o.told("get", "acme", "-policy", name); !strings.Contains(text, "level     2 of 1 to 3") || !strings.Contains(text, "policy    tuned.json") {
		t.Errorf("got\n%s", text)
	}
	if text := succeeded(t, "", "policy", "-policy", name, "-json"); !strings.HasPrefix(text, `{"thresholds":[-2,-9],`) {
		t.Errorf("got %s", text)
	}
}

func TestTuneSaysWhatItCannotTell(t *testing.T) {
	for _, test := range []struct{ trace, want string }{
		{"", "the trace has no documents"},
		{"0,a,1\n9000,a,1\n", "of one customer"},
		{"5,a,1\n5,b,1\n", "at one moment"},
		{strings.Repeat("0,a,1\n", 21) + strings.Repeat("9,b,1\n", 22), "no customer of the trace is light: each has at least 21 documents"},
		{strings.Repeat("0,a,1\n", 21) + "9000,b,1\n", "in the first two thirds"},
		{"0,a,1\n" + strings.Repeat("9000,b,1\n", 21), "in the last third"},
		{"0,a,1\nsoon,b,1\n", "standard input:2"},
	} {
		status, stdout, stderr := called(t, test.trace, "tune", "-")
		if status != 1 || stdout != "" || !strings.HasPrefix(stderr, "priorityctl: ") || !strings.Contains(stderr, test.want) {
			t.Errorf("%.40q: exit status %d, stdout %q, stderr %q, want %q", test.trace, status, stdout, stderr, test.want)
		}
	}
	small := succeeded(t, "0,a\n1000,b\n2000,c\n3000,a\n", "tune", "-", "-counting", "submit")
	for _, want := range []string{"too small to tell a difference from luck", "and their number is 2", "store.Submit(", "unknown ones drawn: lognormal"} {
		if !strings.Contains(strings.Join(strings.Fields(small), " "), want) {
			t.Errorf("no %q in\n%s", want, small)
		}
	}
}
