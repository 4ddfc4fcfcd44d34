package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/nodetest"
	"github.com/docpriority/priority/internal/redistest"
)

// beDriver is the environment's variable that makes a driver of the test's binary: the
// module's own, or a broken one.
const beDriver = "CONFORMANCE_DRIVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(beDriver); name != "" {
		if err := drive(os.Stdin, os.Stdout, drivers[name]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	// The checks wait for servers and processes most of the time.
	if err := flag.Set("test.parallel", fmt.Sprint(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	status := m.Run()
	installed.Remove()
	os.Exit(status)
}

// conform runs all checks on a port.
func conform(t *testing.T, p port) {
	p.patience = patience
	for _, c := range checks {
		if !c.isFor(p) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(&world{TB: t, port: p})
		})
	}
}

// self is the test's binary as a driver.
func self(t *testing.T, name string) port {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return port{command: []string{program}, env: append(os.Environ(), beDriver+"="+name), patience: patience}
}

func TestTheModuleConforms(t *testing.T) {
	t.Parallel()
	conform(t, self(t, "the module"))
}

func TestTheModuleConformsOnACluster(t *testing.T) {
	long(t)
	t.Parallel()
	p := self(t, "the module")
	p.client, p.cluster = "cluster", true
	conform(t, p)
}

func TestPythonConforms(t *testing.T) {
	long(t)
	for _, client := range libraries([]string{"redis", "asyncio-cluster"}, "asyncio", "cluster") {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			conform(t, python(t, client))
		})
	}
}

func TestNodeConforms(t *testing.T) {
	long(t)
	for _, client := range libraries([]string{"node-redis", "ioredis-cluster"}, "ioredis", "node-redis-cluster") {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			conform(t, node(t, client))
		})
	}
}

// long skips what takes minutes, unless the environment asks for it. CI has to leave it out
// by name.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("PRIORITY_CONFORMANCE") == "" {
		redistest.Skip(t, "takes minutes: set PRIORITY_CONFORMANCE to two, or to all, of each port's client libraries")
	}
}

// libraries returns two of a port's client libraries, which differ in all that they can,
// or all of them if the environment asks for it.
func libraries(two []string, more ...string) []string {
	if os.Getenv("PRIORITY_CONFORMANCE") == "all" {
		return append(two, more...)
	}
	return two
}

// python returns the port to Python, which is run as it is.
func python(t *testing.T, client string) port {
	t.Helper()
	program := ""
	// Debian's packages are for Debian's python3, which need not be the first on the PATH.
	for _, candidate := range []string{"python3", "/usr/bin/python3"} {
		if program == "" && exec.Command(candidate, "-c", "import redis").Run() == nil {
			program = candidate
		}
	}
	if program == "" {
		redistest.Skip(t, "no python3 has redis-py: apt-get install python3 python3-redis")
	}
	return port{
		command: []string{program, "conformance/driver.py"}, dir: "../../clients/python",
		env:    append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), // the checkout stays clean
		client: client, cluster: strings.HasSuffix(client, "cluster"), patience: patience,
	}
}

// node returns the port to Node.js, in a copy with what it depends on.
func node(t *testing.T, client string) port {
	t.Helper()
	return port{
		command: []string{"node", "conformance/driver.mjs"}, dir: installed.Install(t, "../..", "clients/nodejs"),
		client: client, cluster: strings.HasSuffix(client, "cluster"), patience: patience,
	}
}

var installed nodetest.Copy

// drivers are the module's own, and broken ones.
var drivers = map[string]func(*request) (subject, error){
	"the module": openGo,
	"counts again after a lost answer": broken(func(s goStore, r *request) response {
		result := s.do(r)
		if r.Do == "next" && result.class() == outcomeUnknown {
			result = s.do(r)
		}
		return result
	}),
	"calls what is lost not counted": broken(func(s goStore, r *request) response {
		result := s.do(r)
		if result.class() == outcomeUnknown {
			result.Error.Class = notCounted
		}
		return result
	}),
	"never says not counted": broken(func(s goStore, r *request) response {
		result := s.do(r)
		if result.class() == notCounted {
			result.Error.Class = outcomeUnknown
		}
		return result
	}),
	"takes a corrupt key for a lost answer": broken(func(s goStore, r *request) response {
		result := s.do(r)
		if result.class() == corrupt {
			result.Error.Class = outcomeUnknown
		}
		return result
	}),
	"does not escape customers": broken(func(s goStore, r *request) response {
		if r.Do == "key" {
			return response{Key: fmt.Appendf(nil, "%s:{%s}:%s", s.prefix, r.Customer, r.Kind)}
		}
		return s.do(r)
	}),
	"reads customers as text": broken(func(s goStore, r *request) response {
		r.Customer = bytes.ToValidUTF8(r.Customer, []byte("\uFFFD"))
		return s.do(r)
	}),
	"gives all of a call the last level": broken(func(s goStore, r *request) response {
		result := s.do(r)
		for i := range result.Decisions {
			result.Decisions[i].Level = result.Decisions[len(result.Decisions)-1].Level
		}
		return result
	}),
	"decides by the default policy": broken(func(s goStore, r *request) response {
		result := s.do(r)
		for i, d := range result.Decisions {
			result.Decisions[i].Level = int64(priority.Policy{}.Level(d.Count))
		}
		return result
	}),
	"counts wrong calls too": broken(func(s goStore, r *request) response {
		r.Customer = r.Customer[:min(len(r.Customer), 512)]
		return s.do(r)
	}),
	"forgets what documents took": broken(func(s goStore, r *request) response {
		r.Took = 0
		return s.do(r)
	}),
	"ignores the cost": broken(func(s goStore, r *request) response {
		r.Costs = nil
		return s.do(r)
	}),
	"tells all documents of a call the first one's cost": broken(func(s goStore, r *request) response {
		for i := range r.Costs {
			r.Costs[i] = r.Costs[0]
		}
		return s.do(r)
	}),
	"takes costs for thousandths of the average": broken(func(s goStore, r *request) response {
		for i, cost := range costsOf(r) {
			r.Costs[i] = json.Number(fmt.Sprint(math.Floor(cost)))
		}
		return s.do(r)
	}),
	"counts a document again that is submitted again": broken(func(s goStore, r *request) response {
		if r.Do == "submit" {
			s.client.ZRem(context.Background(), s.redis.PendingKey(string(r.Customer)), string(r.Documents[0]))
		}
		return s.do(r)
	}),
	"has one mean for costs and times": broken(func(s goStore, r *request) response {
		if r.Do == "done" && r.Took > 0 {
			_, _ = s.Submit(context.Background(), "one mean", fmt.Sprint(r.ID), float64(r.Took)/1000)
		}
		return s.do(r)
	}),
	"tells loads as a single": broken(func(s goStore, r *request) response {
		result := s.do(r)
		for i, d := range result.Decisions {
			result.Decisions[i].Load = float64(float32(d.Load))
		}
		return result
	}),
	"tells of what was not pending": broken(func(s goStore, r *request) response {
		result := s.do(r)
		if r.Do == "done" && len(result.Ended) == 0 {
			result.Ended = []ended{{Document: r.Documents[0]}}
		}
		return result
	}),
	"does not know the turns": func(r *request) (subject, error) {
		if r.Policy != nil {
			r.Policy.Turns = 0
		}
		return openGo(r)
	},
	"does not send a submit again": hooked(&oneTry{}),
	"does not send the text":       hooked(&oneTry{noText: true}),
	"waits for ever": func(r *request) (subject, error) {
		r.Timeout = -1
		parsed, err := redis.ParseURL(r.URL)
		if err != nil {
			return nil, err
		}
		parsed.ReadTimeout, parsed.DialTimeout, parsed.MaxRetries = -1, time.Hour, -1
		client := redis.NewClient(parsed)
		store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: -1})
		return goStore{Store: store, redis: store, client: client}, err
	},
	"ignores the policy": func(r *request) (subject, error) {
		r.Policy = nil
		return openGo(r)
	},
	"ignores the lease": func(r *request) (subject, error) {
		r.Lease = nil
		return openGo(r)
	},
	"says what is no answer": broken(func(s goStore, r *request) response {
		fmt.Println("next!")
		return s.do(r)
	}),
	"dies": broken(func(goStore, *request) response {
		os.Exit(3)
		return response{}
	}),
	"answers without decisions": broken(func(s goStore, r *request) response {
		return response{Error: s.do(r).Error}
	}),
}

// A driver that breaks a promise is found out by the check of this promise, which says
// what is wrong.
func TestABrokenPortIsFoundOut(t *testing.T) {
	long(t)
	t.Parallel()
	for _, test := range []struct{ driver, check, says string }{
		{"counts again after a lost answer", "lost answers are treated as in lost.json", "was sent 2 times, want 1"},
		{"calls what is lost not counted", "lost answers are treated as in lost.json", "want outcome_unknown"},
		{"calls what is lost not counted", "connections that are cut under load are counted exactly", "extra"},
		{"never says not counted", "a server that is gone has counted nothing, and comes back", "what cannot be sent is not counted"},
		{"never says not counted", "a server whose memory is full counts nothing", "want not_counted"},
		{"takes a corrupt key for a lost answer", "corrupt keys are told and left as they are", "want corrupt"},
		{"does not escape customers", "keys match keys.json", "want"},
		{"reads customers as text", "customers and documents are any bytes", "has the count"},
		{"gives all of a call the last level", "decisions match rule.json", "want"},
		{"counts wrong calls too", "wrong calls are refused before anything is sent", "scripts were sent for wrong calls"},
		{"forgets what documents took", "costs match mean.json", "the average cost is 1000"},
		{"ignores the cost", "costs match mean.json", "is sent"},
		{"ignores the cost", "wrong calls are refused before anything is sent", "want invalid"},
		{"tells all documents of a call the first one's cost", "costs match mean.json", "is sent"},
		{"takes costs for thousandths of the average", "costs match mean.json", "is sent"},
		{"has one mean for costs and times", "costs match mean.json", "is sent"},
		{"counts a document again that is submitted again", "a document that is submitted again is counted once", "were submitted lately"},
		{"counts a document again that is submitted again", "decisions match submit.json", "want"},
		{"tells loads as a single", "replies are told to the last millionth", "72.000001"},
		{"tells of what was not pending", "decisions match submit.json", "want"},
		{"does not know the turns", "decisions match submit.json", "want"},
		{"does not know the turns", "scripts and levels match policies.json", "its blocks are"},
		{"does not send a submit again", "lost answers are treated as in lost.json", "want answered"},
		{"does not send the text", "scripts that the server forgets are noticed by nobody", "NOSCRIPT"},
		{"waits for ever", "a server that stands still is outlived", "has not answered"},
		{"waits for ever", "500 calls end while the server stands still", "has not answered"},
		{"ignores the policy", "scripts and levels match policies.json", "its blocks are"},
		{"decides by the default policy", "scripts and levels match policies.json", "of 4 at once"},
		{"ignores the policy", "policies, leases and prefixes that are wrong are refused", "want invalid"},
		{"ignores the lease", "decisions match edges.json", "want"},
		{"says what is no answer", "the defaults match the module", "which is no answer"},
		{"dies", "the defaults match the module", "the driver has ended: exit status 3"},
		{"answers without decisions", "the defaults match the module", "has 0 decisions, want 1"},
		{"answers without decisions", "connections that are cut under load are counted exactly", "has 0 decisions, want 1"},
	} {
		t.Run(test.driver+": "+test.check, func(t *testing.T) {
			t.Parallel()
			p := self(t, test.driver)
			p.patience = 10 * time.Second
			if test.driver == "waits for ever" {
				p.patience = 2 * time.Second
			}
			a, _ := tryNamed(t, test.check, p)
			if said := strings.Join(a.Said(), "\n"); !a.Failed() || !strings.Contains(said, test.says) {
				t.Errorf("it says %q, want %q in it", said, test.says)
			}
		})
	}
}

// A script may start the driver. It has to end as the driver does.
func TestADriverMayBeStartedByAScript(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	t.Parallel()
	for _, test := range []struct{ name, script, check, says string }{
		{"is answered", `"$0"; echo over >&2`, "the defaults match the module", ""},
		{"is ended", `"$0"; echo over >&2`, "a process ends when its input does", ""},
		{"has a status", `"$0"; exit 3`, "a process ends when its input does", "exit status 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := self(t, "the module")
			p.command = append([]string{"sh", "-c", test.script}, p.command...)
			var a *redistest.Attempt
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				a, _ = tryNamed(t, test.check, p)
			}()
			select {
			case <-ended:
			case <-time.After(2 * patience):
				t.Fatal("the check does not end")
			}
			if said := strings.Join(a.Said(), "\n"); a.Failed() != (test.says != "") || !strings.Contains(said, test.says) {
				t.Errorf("it says %q, want %q in it", said, test.says)
			}
		})
	}
}

// tryNamed runs one of the checks.
func tryNamed(t *testing.T, name string, p port) (a *redistest.Attempt, lacks string) {
	at := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
	if at < 0 {
		t.Fatal("there is no such check")
	}
	return try(checks[at], p)
}

// A check that panics fails, and what it has started ends.
func TestAPanicIsAFailure(t *testing.T) {
	t.Parallel()
	ended := false
	a, _ := try(check{run: func(w *world) {
		w.Cleanup(func() { ended = true })
		panic("no decision")
	}}, port{})
	if said := strings.Join(a.Said(), "\n"); !a.Failed() || !strings.Contains(said, "no decision") || !ended {
		t.Errorf("failed %t, says %q, cleaned up %t", a.Failed(), said, ended)
	}
}

// broken is a driver whose store is not the module's.
func broken(do func(goStore, *request) response) func(*request) (subject, error) {
	return func(r *request) (subject, error) {
		store, err := openGo(r)
		if err != nil {
			return nil, err
		}
		return brokenStore{store.(goStore), do}, nil
	}
}

type brokenStore struct {
	goStore
	how func(goStore, *request) response
}

func (s brokenStore) do(r *request) response { return s.how(s.goStore, r) }

// hooked is a driver whose client has a hook.
func hooked(hook redis.Hook) func(*request) (subject, error) {
	return func(r *request) (subject, error) {
		store, err := openGo(r)
		if err == nil {
			store.(goStore).client.(*redis.Client).AddHook(hook)
		}
		return store, err
	}
}

// oneTry answers for Redis, for good, where it would have to be asked again.
type oneTry struct{ noText bool }

func (h *oneTry) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *oneTry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *oneTry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		text := redis.Error(nil)
		switch isReply := errors.As(err, &text); {
		case h.noText && isReply && strings.HasPrefix(text.Error(), "NOSCRIPT"):
			err = finalAnswer("ERR the port knows no " + text.Error())
		case !h.noText && err != nil && !isReply:
			err = finalAnswer("ERR the port does not try again")
		}
		cmd.SetErr(err)
		return err
	}
}

type finalAnswer string

func (a finalAnswer) Error() string { return string(a) }
func (finalAnswer) RedisError()     {}

// An author sees a line for each check, and why it failed, in 80 columns.
func TestTheReportSaysWhatFailedAndWhy(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	t.Parallel()
	var out bytes.Buffer
	p := self(t, "does not escape customers")
	status := report(p, regexp.MustCompile("keys.json|byte by byte"), &out)
	text := out.String()
	if status != 1 || !strings.HasPrefix(text, "FAIL  keys match keys.json\n      ") ||
		!strings.Contains(text, "\n      and ") ||
		!strings.HasSuffix(text, "\nok    an answer that comes byte by byte is an answer\n1 of 2 checks failed.\n") {
		t.Errorf("exit status %d, and\n%s", status, text)
	}
	for line := range strings.Lines(text) {
		if len([]rune(line)) > 81 {
			t.Errorf("a line of %d characters: %s", len(line)-1, line)
		}
	}
}

// A port may lack what is optional, and nothing else. The module and its ports to Python and
// Node.js, which conform runs the checks on, may lack nothing.
func TestWhatAPortDoesNotSupportIsSkipped(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	t.Parallel()
	without := func(words string) port { // a driver that supports no open that has one of the words
		p := self(t, "the module")
		p.command = append([]string{"sh", "-c", `read -r open
			case $open in
			` + words + `) echo '{"id":1,"error":{"class":"unsupported","message":"not in this port"}}'; cat >/dev/null ;;
			*) { echo "$open"; cat; } | "$0" ;;
			esac`}, p.command...)
		p.partial = true
		return p
	}
	const name = "a fallback answers while the server is away"
	var out bytes.Buffer
	status := report(without(`*'"fallback":true'*|*'"overrides":true'*`), regexp.MustCompile("overrides|fallback|byte by byte"), &out)
	const want = `skip  decisions with overrides match edges.json
      The port does not support "overrides".
ok    an answer that comes byte by byte is an answer
skip  ` + name + `
      The port does not support "fallback".
1 of 3 checks passed; the port does not support the others.
`
	if got := out.String(); status != 0 || got != want {
		t.Errorf("exit status %d, and\n%s", status, got)
	}
	whole := without(`*'"fallback":true'*`)
	whole.partial = false
	for what, test := range map[string]struct {
		p     port
		check string
	}{
		"a port of this repository":  {whole, name},
		"a port without any options": {without("*"), "an answer that comes byte by byte is an answer"},
	} {
		if a, lacks := tryNamed(t, test.check, test.p); !a.Failed() || lacks != "" || !strings.Contains(strings.Join(a.Said(), ""), "unsupported") {
			t.Errorf("%s: failed %t, lacks %q, says %q", what, a.Failed(), lacks, a.Said())
		}
	}
}

// Names of 512 bytes do not fill the screen.
func TestLongNamesAreShownShortened(t *testing.T) {
	name := bytes.Repeat([]byte("x"), 512)
	for _, text := range []string{
		response{Ended: []ended{{Document: name, Level: 9}}}.String(),
		response{Error: &failure{corrupt, fmt.Sprintf("the key priority:{%s}:usage holds something else", name)}}.String(),
		shown(fields{"customer": name, "documents": [][]byte{name}}),
	} {
		if len(text) > 150 || !strings.Contains(text, "xxxx") && !strings.Contains(text, "eHh4") {
			t.Errorf("%d bytes: %s", len(text), text)
		}
	}
}

func TestMisuseIsTold(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status int
		out    string
		err    string
	}{
		{[]string{}, 2, "", "usage: go run ./clients/conformance"},
		{[]string{"-run", "["}, 2, "", "conformance: -run: "},
		{[]string{"-nonsense"}, 2, "", "flag provided but not defined"},
		{[]string{"-run", "nothing like it", "--", "true"}, 1, "No check has such a name: see -list.\n", ""},
		{[]string{"-list", "-run", "keys.*json|trickle|byte by byte"}, 0, "keys match keys.json\nan answer that comes byte by byte is an answer\n", ""},
	} {
		var out, err bytes.Buffer
		status := run(test.args, strings.NewReader(""), &out, &err)
		if status != test.status || out.String() != test.out || !strings.Contains(err.String(), test.err) {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", test.args, status, out.String(), err.String())
		}
	}
}

// Where there are no vectors, no check is begun.
func TestOutsideOfACheckoutNothingIsChecked(t *testing.T) {
	t.Chdir(t.TempDir())
	var out, err bytes.Buffer
	if status := run([]string{"--", "true"}, nil, &out, &err); status != 2 || out.String() != "" ||
		!strings.Contains(err.String(), "is not in a checkout of this repository") {
		t.Errorf("exit status %d, stdout %q, stderr %q", status, out.String(), err.String())
	}
}

// The page for an author names the checks and nothing else.
func TestThePageNamesEachCheck(t *testing.T) {
	var listed bytes.Buffer
	if status := run([]string{"-list"}, nil, &listed, io.Discard); status != 0 {
		t.Fatalf("-list: exit status %d", status)
	}
	page := markdown.Read(t, "README.md")
	for name := range strings.Lines(listed.String()) {
		if !strings.Contains(string(page), "- "+name) {
			t.Errorf("README.md does not have the check %q", strings.TrimSpace(name))
		}
	}
}

// The page's requests have the page's answers.
func TestThePageShowsWhatADriverSays(t *testing.T) {
	blocks := markdown.Read(t, "README.md").Blocks("json")
	if len(blocks) < 2 {
		t.Fatal("the page has no requests and answers")
	}
	server := redistest.Start(t)
	requests := strings.ReplaceAll(blocks[0], "127.0.0.1:7000", server.Addr)
	var said bytes.Buffer
	for line := range strings.Lines(requests) { // one after the other, so that the answers are certain
		open := strings.SplitAfter(requests, "\n")[0]
		if line != open {
			line = open + line
		}
		var out bytes.Buffer
		if err := drive(strings.NewReader(line), &out, openGo); err != nil {
			t.Fatal(err)
		}
		answers := strings.SplitAfter(out.String(), "\n")
		said.WriteString(answers[len(answers)-2])
	}
	sorted := func(text string) []string { return slices.Sorted(strings.Lines(text)) }
	if got, want := sorted(said.String()), sorted(blocks[1]); !slices.Equal(got, want) {
		t.Errorf("the requests of the page are answered with\n%s", strings.Join(got, ""))
	}
}
