package main

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/docpriority/priority/internal/redistest"
)

// goWords are what Go's libraries, its types and this module's packages say of an error.
var goWords = regexp.MustCompile(`context (deadline|canceled)|strconv\.|json: |\bGo (struct|value)|unmarshal|(dial|read|write|listen) (tcp|unix)|\blookup \S+ on |` +
	`i/o timeout|\bEOF\b|parsing (time )?"|invalid character|\bopen \S+: |priority: |control: |fleet: |(^|[^-])redis: |"(override|policy|reset)[:"]|%!|\[\]|0x[0-9a-f]{4}|` +
	`goroutine|\bnil\b|x509: |tls: |arg\(s\)|shorthand|map\[|&\{|illegal base64|closed network|last 0 |\bsyscall\b`)

// saysNoGo checks what a command line has printed.
func saysNoGo(t *testing.T, args []string, text string) {
	t.Helper()
	if found := goWords.FindString(text); found != "" {
		t.Errorf("%q says %q:\n%s", args, found, text)
	}
}

// No wrong command line is answered in Go's words.
func TestAWrongCallIsAnsweredInTheOperatorsWords(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	client.RPush(t.Context(), "priority:{list}:count", "-1")
	inputs := map[string]string{
		"number": `{"customer":1}`, "short": `{"customer":"a"`, "time": `{"customer":"a","until":"x"}`, "notime": `{"customer":"a","until":7}`, "array": `[]`, "word": `hello`,
		"base64": `{"customer":"a","customer_base64":"%"}`, "unknown": `{"x":1}`, "text": `{"thresholds":["a"]}`, "fraction": `{"thresholds":[-2.5]}`,
		"huge": `{"thresholds":[-99999999999999999999999]}`, "loads": `{"thresholds":[-2],"loads":"x"}`, "brace": `{"thresholds":[-2}`, "tier": `{"tiers":{"a":1}}`,
		"infinite": `{"loads":[1e999]}`, "interval": `{"reset_interval_ms":1.5}`, "null": `null`, "empty": ``, "mode": `{"reset_mode":1}`, "behind": `{"loads":[1]}x`,
	}
	set := func(args ...string) []string {
		return append([]string{"override", "set", "acme", "-why", "x"}, args...)
	}
	lines := [][]string{
		set("-level", "x", "-for", "1h"), set("-level", "99999999999999999999", "-for", "1h"), set("-level", "1.5", "-for", "1h"), set("-level", "10", "-for", "1h"),
		set("-level", "1", "-for", "3"), set("-level", "1", "-for", "3d"), set("-level", "1", "-for", ""), set("-level", "1", "-for", "9999999h"), set("-level", "1", "-for"),
		set("-level", "1", "-for", "1h", "-replaces", "x"), set("-level", "1", "-for", "1h", "-replaces", "7"), set("-leve", "1"), set("--nonsense"), set("-level", "1", "-for", "1h", "-levels", "x"),
		{"override", "end", "nobody", "-why", "x"}, {"override", "end", "nobody", "-why", "x", "-replaces", "3"}, {"override", "end", "-why", "x"}, {"override", "list", "x"},
		{"policy", "apply", "no-such-file", "-why", "x"}, {"policy", "apply", "-why", "x"}, {"policy", "apply", "default", "-why", "x", "-replaces", "7"}, {"policy", "apply", t.TempDir(), "-why", "x"},
		{"policy", "rollback", "x", "-why", "x"}, {"policy", "rollback", "99", "-why", "x"}, {"policy", "rollback", "99999999999999999999", "-why", "x"}, {"policy", "rollback", "-why", "x"},
		{"policy", "withdraw", "-why", "x"}, {"policy", "withdraw", "x", "-why", "x"}, {"policy", "compare", "a", "b"}, {"policy", "compare", "default"}, {"policy", "history", "x"}, {"policy", "check"},
		{"policy", "-thresholds", "x"}, {"policy", "-thresholds", ","}, {"policy", "-thresholds", "-99999999999999999999"}, {"policy", "-loads", "nan"}, {"policy", "-loads", "x"},
		{"policy", "-turns", "x"}, {"policy", "-turns", "-1"}, {"policy", "-reset-interval", "5"}, {"policy", "-reset-interval", "1ns"}, {"policy", "-reset-mode", "x"},
		{"log", "-n", "x"}, {"log", "-n", "0"}, {"log", "-n"}, {"log", "-customer", "nobody"}, {"log", "x"},
		{"list", "-level", "x"}, {"list", "-level", "10"}, {"list", "-level", "0"}, {"list", "-pace", "x"}, {"list", "-limit", "x"}, {"list", "-cursor", "x"}, {"list", "-load-above", "x"}, {"list", "-count-below", "x"},
		{"top", "-once", "-interval", "x"}, {"ping", "-count", "x"}, {"get"}, {"get", "-json=x", "acme"}, {"get", "-timeout", "x", "acme"}, {"get", "list"}, {"get", ""}, {"get", "-policy", "no-such-file", "acme"},
		{"serve", "-listen", "nowhere"}, {"serve", "-listen", "127.0.0.1:99999"}, {"serve", "-listen", client.Options().Addr}, {"serve", "-listen", "192.0.2.1:80"}, {"serve", "-listen", "no-such-host.invalid:80"}, {"serve", "x"},
		{"reset", "acme"}, {"reset", "-yes", ""}, {"reset", "-yes", "acme", "-why", ""}, {"forget", "acme", "-why", "x"}, {"forget", "-yes", "acme"}, {"forget", "-yes", "", "-why", "x"}, {"forget", "-yes", "acme", "-why", "acme"}, {"forget", "-why", "x"}, {"nonsense"}, {"-nonsense"}, {"override", "nonsense"},
		{"get", "acme", "-password-file", "no-such-file"}, {"get", "acme", "-user", "x"}, {"get", "acme", "-tls-ca", "x"},
	}
	for _, url := range []string{
		"redis://127.0.0.1:x", "redis://" + client.Options().Addr + "/x", "http://x", "redis://", "x", "redis://127.0.0.1?x=1", "redis+cluster://" + client.Options().Addr, "redis+sentinel://" + client.Options().Addr + "/m",
	} {
		lines = append(lines, []string{"get", "acme", "-redis", url})
	}
	for _, args := range [][]string{{"-tls-ca", "no-such-file"}, {"-tls-cert", "a", "-tls-key", "b"}, {"-tls-ca", file(t, "ca", "x")}} {
		lines = append(lines, append([]string{"get", "acme", "-redis", "rediss://" + client.Options().Addr}, args...))
	}
	for name, text := range inputs {
		path := file(t, name, text)
		lines = append(lines, []string{"override", "set", "-from", path, "-level", "1", "-for", "1h", "-why", "x"}, []string{"policy", "check", path}, []string{"policy", "apply", path, "-why", "x"})
	}
	for _, args := range lines {
		asking := o
		if args[0] == "policy" && (args[1] == "check" || args[1][0] == '-') || args[0][0] == '-' {
			asking = alone(t) // which asks no Redis
		}
		status, stdout, stderr := asking.ask(args[0], args[1:]...)
		if status == 0 && !slices.Contains(args, "nobody") && stdout == "" {
			t.Errorf("%q succeeds", args)
		}
		saysNoGo(t, args, stdout+stderr)
	}
	for want, args := range map[string][]string{
		`-level "x" is not a whole number`:                               set("-level", "x"),
		`-level "99999999999999999999" is too large`:                     set("-level", "99999999999999999999"),
		`-for "3d" is not a time such as 90s, 15m or 2h`:                 set("-level", "1", "-for", "3d"),
		`-n "x" is not a whole number`:                                   {"log", "-n", "x"},
		`-level "x" is not a list of whole numbers such as 8,9`:          {"list", "-level", "x"},
		`-load-above "x" is not a number`:                                {"list", "-load-above", "x"},
		"-for needs a value: see priorityctl override set -help":         set("-level", "1", "-for"),
		"unknown flag -nonsense: see priorityctl override set -help":     set("-nonsense"),
		"thresholds is a text, not a whole number":                       {"policy", "check", file(t, "a", inputs["text"])},
		"thresholds is -2.5, not a whole number":                         {"policy", "check", file(t, "a", inputs["fraction"])},
		"not a smaller number":                                           {"policy", "check", file(t, "a", inputs["huge"])},
		"loads is a text, not a list":                                    {"policy", "check", file(t, "a", inputs["loads"])},
		"it is a list, not an object":                                    {"policy", "check", file(t, "a", "[]")},
		"it is not JSON, from byte 1 on":                                 {"policy", "check", file(t, "a", "hello")},
		"not a policy: invalid policy: it is empty":                      {"policy", "check", file(t, "a", "")},
		"-for -1h is not from 1ms to 720h":                               set("-level", "1", "-for", "-1h"),
		"it ends too early":                                              {"policy", "check", file(t, "a", `{"loads":[1]`)},
		`"x" is not a time such as 1970-01-01T00:00:00Z`:                 {"override", "set", "-from", file(t, "a", inputs["time"]), "-level", "1", "-for", "1h", "-why", "x"},
		"customer is a number, not a text":                               {"override", "set", "-from", file(t, "a", inputs["number"]), "-level", "1", "-for", "1h", "-why", "x"},
		"no-such-file: no such file":                                     {"policy", "apply", "no-such-file", "-why", "x"},
		`there is no host "no-such-host.invalid"`:                        {"serve", "-listen", "no-such-host.invalid:80"},
		"-listen: " + client.Options().Addr + ": address already in use": {"serve", "-listen", client.Options().Addr},
	} {
		asking := o
		if args[1] == "check" {
			asking = alone(t)
		}
		asking.refused(2, want, args[0], args[1:]...)
	}
}

// No outage is told in Go's words, and each has the exit status by which a script goes on.
func TestAnOutageIsToldInTheOperatorsWords(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := func(fault redistest.Fault) string {
		p := redistest.StartProxy(t, server.Addr)
		p.Set(fault)
		return "redis://" + p.Addr
	}
	stopped := redistest.Start(t)
	stopped.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { stopped.Signal(syscall.SIGCONT) })
	full := redistest.Start(t, "--maxclients", "1")
	if err := full.Client().Ping(t.Context()).Err(); err != nil { // which holds the one connection
		t.Fatal(err)
	}
	for name, outage := range map[string]struct{ url, says string }{
		"nobody listens":           {"redis://127.0.0.1:1", "cannot reach redis://127.0.0.1:1: connection refused"},
		"no host":                  {"redis://no-such-host.invalid", `host "no-such-host.invalid"`},
		"no socket":                {"unix:///no/such/socket", "/no/such/socket: no such file or directory"},
		"a server that hangs":      {"redis://" + stopped.Addr, "no answer in time (it accepts connections and does not answer: it hangs"},
		"a way that loses all":     {proxy(redistest.Blackhole), "no answer in time"},
		"a way that cuts replies":  {proxy(redistest.Cut), "the connection was closed"},
		"a way that cuts them off": {proxy(redistest.Truncate), ""},
		"no TLS":                   {"rediss://" + server.Addr, ""},
		"too many clients":         {"redis://" + full.Addr, ""},
		"no such database":         {"redis://" + server.Addr + "/99", "DB index is out of range"},
		"a login that is wrong":    {"redis://nobody:x@" + server.Addr, "refuses the login"},
		"a cluster that is away":   {"redis+cluster://127.0.0.1:1,127.0.0.1:2", "connection refused"},
		"sentinels that are away":  {"redis+sentinel://127.0.0.1:1/m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := operatorOn(t, "-redis", outage.url, "-timeout", "300ms")
			for _, args := range [][]string{
				{"get", "acme"}, {"list"}, {"top", "-once"}, {"ping"}, {"reset", "-yes", "acme"}, {"log"}, {"override", "list"}, {"override", "end", "acme", "-why", "x"},
				{"override", "set", "acme", "-level", "1", "-for", "1h", "-why", "x"}, {"policy", "apply", "default", "-why", "x"}, {"policy", "history"}, {"policy", "compare", "current", "default"},
			} {
				status, stdout, stderr := o.ask(args[0], args[1:]...)
				if status != exitUnreachable || !strings.Contains(stderr, outage.says) {
					t.Errorf("%q: exit status %d, stderr %q, want %q", args, status, stderr, outage.says)
				}
				saysNoGo(t, args, stdout+stderr)
			}
		})
	}
}

// losing stands before a Redis until a request has a word in it. That one arrives, and so
// do those behind it; no reply comes back any more.
func losing(t *testing.T, address, word string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var lost atomic.Bool
	forward := func(to, from net.Conn, passes func(chunk string) bool) {
		defer to.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if passes(string(buffer[:n])) {
				_, _ = to.Write(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				continue
			}
			go forward(server, client, func(chunk string) bool {
				if strings.Contains(chunk, word) {
					lost.Store(true)
				}
				return true
			})
			go forward(client, server, func(string) bool { return !lost.Load() })
		}
	}()
	return "redis://" + listener.Addr().String()
}

// A script repeats what could not reach Redis. What may have been done it must not.
func TestAnUnknownOutcomeHasAnExitStatusOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"override", "set", "acme", "-level", "1", "-for", "1h"}, {"override", "end", "bakery"}, {"policy", "apply", "default"}, {"policy", "withdraw"}, {"policy", "rollback", "1"},
	} {
		t.Run(fmt.Sprint(args[0], args[1]), func(t *testing.T) {
			t.Parallel()
			boss, client := started(t)
			boss.told("policy", "apply", file(t, "few.json", `{"thresholds":[-20]}`), "-why", "first")
			boss.told("policy", "apply", "default", "-why", "second")
			boss.told("override", "set", "bakery", "-level", "2", "-for", "1h", "-why", "first")
			count(t, client, map[string]int{"acme": 30})
			o := operatorOn(t, "-redis", losing(t, client.Options().Addr, "the last words"), "-timeout", "500ms", "-why", "the last words")
			status, stdout, stderr := o.ask(args[0], args[1:]...)
			if status != exitUnknown || !strings.Contains(stderr, "it may have been done, or not: look before you do it again") {
				t.Errorf("exit status %d, stdout %q, stderr %q", status, stdout, stderr)
			}
			saysNoGo(t, args, stdout+stderr)
			if text := boss.told("log", "-n", "1"); !strings.Contains(text, "the last words") {
				t.Errorf("the log has\n%s", text)
			}
		})
	}
	t.Run("of several", func(t *testing.T) {
		t.Parallel()
		_, client := started(t)
		o := operatorOn(t, "-redis", losing(t, client.Options().Addr, "the last words"), "-timeout", "500ms")
		lines := `{"customer":"acme","why":"first"}{"customer":"bakery","why":"the last words"}{"customer":"clinic","why":"x"}{"customer":"dentist","why":"x"}`
		status, stdout, stderr := o.reading(lines).ask("override", "set", "-from", "-", "-level", "1", "-for", "1h", "-json")
		got := objects(t, stdout)
		if status != exitUnknown || len(got) != 2 || got[1]["outcome_unknown"] != true || !strings.Contains(stderr, "2 customers behind it: not tried") {
			t.Errorf("exit status %d, stdout %s, stderr %q", status, stdout, stderr)
		}
	})
}
