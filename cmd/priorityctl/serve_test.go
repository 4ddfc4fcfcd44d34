package main

import (
	"bufio"
	"context"
	"encoding/json"
	"html"
	"io"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
)

// serving starts the page on a free port and returns its address and its first line.
// With the test it is interrupted, and must end well.
func serving(t *testing.T, args ...string) (address, line string) {
	t.Helper()
	address, line, interrupt := servingOn(t, redistest.Start(t).Addr, io.Discard, args...)
	t.Cleanup(func() {
		if status := interrupt(); status != 0 {
			t.Errorf("interrupted, it ends with %d", status)
		}
	})
	return address, line
}

// servingOn serves the Redis of an address. What it returns at last interrupts it, and
// returns the exit status.
func servingOn(t *testing.T, redis string, stderr io.Writer, args ...string) (address, line string, interrupt func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	from, to := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, alone(t).environment, append([]string{"serve", "-redis", "redis://" + redis, "-listen", "127.0.0.1:0"}, args...), nil, to, stderr)
		_ = to.Close()
	}()
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ = strings.Cut(line, " ")
	return address, line, func() int {
		cancel()
		return <-ended
	}
}

func get(t *testing.T, address, host string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// A shell runs each command that the page shows on the customer whose page it is, once its
// reader has said why.
func TestServeShowsCommandsThatMeetTheirCustomer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := "redis://" + server.Addr
	bin, dir := shellCommands(t), t.TempDir()
	address, _, _ := servingOn(t, server.Addr, io.Discard, "-prefix", "team's")
	commands := regexp.MustCompile(`<code class="command" tabindex="0">([^<]*)</code>`)
	for _, customer := range []string{"acme", "it's; $(touch pwned)", `<b> & "x"`, "-rf", " a  b", "line\r\nbreak\x00", "\u202eright", "\xff\xfe", "~"} {
		_, body := get(t, address+"customer?c="+neturl.QueryEscape(customer), "")
		found := commands.FindAllStringSubmatch(body, -1)
		if len(found) != 4 {
			t.Fatalf("%q has %d commands:\n%s", customer, len(found), body)
		}
		for i, key := range []string{":override", ":override", ":override", ":count"} {
			line := html.UnescapeString(found[i][1])
			if status, _, stderr := inShell(t, bin, dir, url, line); status != exitUsage || !strings.Contains(stderr, "why") && key != ":count" {
				t.Errorf("%s\nwithout a reason has status %d: %s", line, status, stderr)
			}
			line = strings.Replace(line, "-why ''", "-why 'a test'", 1)
			if key == ":count" {
				line = strings.Replace(line, "priorityctl reset -why", "priorityctl reset -yes -why", 1) // nobody can be asked
			}
			if status, _, stderr := inShell(t, bin, dir, url, line); status != 0 {
				t.Errorf("%s\nhas status %d: %s", line, status, stderr)
			}
		}
		o := operatorOn(t, "-redis", url, "-prefix", "team's")
		listed := o.told("override", "list", "-json")
		logged := o.told("log", "-json")
		var name insight.Name
		if err := json.Unmarshal([]byte(listed), &name); err != nil || name.Exact() != customer {
			t.Errorf("%q: the overrides are %s", customer, listed)
		}
		if first, _, _ := strings.Cut(logged, "\n"); !strings.Contains(first, `"kind":"reset"`) {
			t.Errorf("%q: the last change is %s", customer, first)
		}
		server.Client().FlushAll(t.Context())
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("a customer's name was run")
	}
}

func TestServeStartsWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	count(t, server.Client(), map[string]int{"acme": 3})
	server.Kill()
	var stderr strings.Builder
	address, _, interrupt := servingOn(t, server.Addr, &stderr, "-timeout", "1s")
	if _, body := get(t, address+"customer?c=acme", ""); !strings.Contains(body, "cannot be reached") {
		t.Errorf("while Redis is down, the page has\n%s", body)
	}
	server.Restart()
	redistest.Await(t, "the page to show a customer", func() bool {
		_, body := get(t, address+"customer?c=acme", "")
		return strings.Contains(body, "acme") && !strings.Contains(body, "cannot be reached")
	})
	status := interrupt()
	if text := stderr.String(); status != 0 || !strings.Contains(text, "connection refused; the page says so until it can") || strings.Count(text, "\n") != 1 {
		t.Errorf("it ends with %d and says %q", status, text)
	}
	saysNoGo(t, []string{"serve"}, stderr.String())
}

// What a Redis is that was away shows when it comes back.
func TestServeEndsWhereTheRedisThatComesBackIsAnotherKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	lines := make(lineWriter, 10)
	_, _, _ = servingOn(t, server.Addr, lines, "-timeout", "1s")
	if line := <-lines; !strings.Contains(line, "connection refused") {
		t.Fatal(line)
	}
	server.Launch("--cluster-enabled", "yes")
	select {
	case line := <-lines:
		if !strings.Contains(line, "ask the whole cluster by redis+cluster://") {
			t.Error(line)
		}
	case <-time.After(time.Minute):
		t.Error("it serves on")
	}
}

// lineWriter has what a program writes at a time.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func TestServeRefusesALoginThatStaysWrong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	alone(t).refused(3, "refuses the login", "serve", "-listen", "127.0.0.1:0", "-redis", "redis://nobody:x@"+server.Addr)
}

// A name of somebody else's that leads to this machine is not answered for.
func TestServeAnswersForThisMachineOnly(t *testing.T) {
	t.Parallel()
	address, _ := serving(t, "-host", "Ops.Example.", "-host", "ops.two")
	for host, want := range map[string]int{
		"": http.StatusOK, "localhost": http.StatusOK, "localhost:7090": http.StatusOK, "[::1]:80": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "evil.example:7090": http.StatusMisdirectedRequest,
		"[::1]": http.StatusOK, "LocalHost.:7090": http.StatusOK, "127.0.0.1.": http.StatusOK, "ops.example": http.StatusOK, "OPS.two:443": http.StatusOK,
		"[evil.example]": http.StatusMisdirectedRequest, "not.ops.example": http.StatusMisdirectedRequest,
		"127.0.0.1.evil.example": http.StatusMisdirectedRequest, "192.0.2.1": http.StatusMisdirectedRequest,
	} {
		if got, _ := get(t, address, host); got != want {
			t.Errorf("%q has status %d, want %d", host, got, want)
		}
	}
}

func TestServeRefusesWhatIsNoHost(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-listen", "nowhere"}, {"-host", ""}, {"-host", "ops.example:80"}, {"-host", "https://ops.example"}, {"-host", "*.example"}} {
		alone(t).refused(2, "", "serve", args...)
	}
}
