package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/testing/redistest"
)

// serving serves the Redis of an address on a free port. What it returns at last interrupts
// it, and returns the exit status.
func serving(t *testing.T, redis string, stderr io.Writer, args ...string) (address string, interrupt func() int) {
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
	return address, func() int {
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

func TestServe_RedisAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	var stderr strings.Builder
	address, interrupt := serving(t, server.Addr, &stderr, "-timeout", "1s")
	if _, body := get(t, address+"customer?c=acme", ""); !strings.Contains(body, "cannot be reached") {
		t.Errorf("while Redis is down, the page has\n%s", body)
	}
	status := interrupt()
	if text := stderr.String(); status != 0 || !strings.Contains(text, "connection refused; the page says so until it can") || strings.Count(text, "\n") != 1 {
		t.Errorf("it ends with %d and says %q", status, text)
	}
}

// The charts have what was pending while nobody looked.
func TestServe_Unvisited(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	serving(t, server.Addr, io.Discard)
	redistest.Await(t, "a look at what workers keep", func() bool {
		return strings.Contains(server.Client().Info(t.Context(), "commandstats").Val(), "cmdstat_hgetall:")
	})
}

func TestServe_Wrong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	alone(t).refused(2, "-listen", "serve", "-listen", "nowhere")
	alone(t).refused(3, "refuses the login", "serve", "-listen", "127.0.0.1:0", "-redis", "redis://nobody:x@"+server.Addr)
}

// A name of somebody else's that leads to this machine is not answered for.
func TestServe_Hosts(t *testing.T) {
	t.Parallel()
	address, _ := serving(t, redistest.Start(t).Addr, io.Discard, "-host", "Ops.Example.", "-host", "ops.two")
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
