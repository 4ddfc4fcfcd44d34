package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestTheServerMayBeAwayAtStart(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.Kill()
	opened := make(chan *Documents, 1)
	go func() { opened <- open(t, s.URL, nil) }()
	time.Sleep(pause) // it meets nobody
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	produce(t, <-opened, "one")
}

func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), pause)
	defer cancel()
	if _, err := Open(ctx, s.URL, new(memory.Store), quiet()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// What no other try changes is said at once.
func TestAWrongOptionIsAnError(t *testing.T) {
	t.Parallel()
	url := start(t)
	wrong := []*Options{nil}
	for _, change := range []func(*Options){
		func(o *Options) { o.Replicas = 3 },
		func(o *Options) { o.Name = "my.documents" },
		func(o *Options) { o.Name = "" },
	} {
		options := quiet()
		change(options)
		wrong = append(wrong, options)
	}
	for _, options := range wrong {
		if _, err := Open(t.Context(), url, new(memory.Store), options); err == nil {
			t.Errorf("no error of %+v", options)
		} else {
			t.Log(err)
		}
	}
	for field, change := range map[string]func(*Options){
		"Workers":    func(o *Options) { o.Workers = -1 },
		"Limit":      func(o *Options) { o.Limit = -1 },
		"AckWait":    func(o *Options) { o.AckWait = -1 },
		"Backoff":    func(o *Options) { o.Backoff = []time.Duration{1, -1} },
		"Replicas":   func(o *Options) { o.Replicas = -1 },
		"MaxBytes":   func(o *Options) { o.MaxBytes = -1 },
		"Duplicates": func(o *Options) { o.Duplicates = -1 },
		"weight":     func(o *Options) { o.Weights = []int64{0} },
	} {
		options := quiet()
		change(options)
		_, err := Open(t.Context(), url, new(memory.Store), options)
		if !errors.Is(err, priority.ErrInvalidOption) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
	if _, err := Open(t.Context(), "nats://:not a url", new(memory.Store), quiet()); err == nil {
		t.Error("no error of a broken address")
	} else {
		t.Log(err)
	}
}

// Documents that are in hand are finished, and Work ends although it cannot say so.
func TestWorkEndsWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	d := open(t, s.URL, func(o *Options) { o.AckWait = time.Second })
	produce(t, d, "one")
	served := 0
	work(t, d, func(finish func(), _, _ string, _ []byte) error {
		s.Kill()
		finish()
		served++
		return nil
	})
	if served != 1 {
		t.Errorf("served %d times", served)
	}
	nothingIsPending(t, d, "acme")
}

// A refusal that the client does not know closes its connection, whatever
// MaxReconnects says.
func TestWorkEndsWithAConnectionThatIsClosedForGood(t *testing.T) {
	t.Parallel()
	url, refuse := refusing(t, start(t))
	var log trial.Log
	d := open(t, url, func(o *Options) { o.Workers, o.Logger = 8, slog.New(slog.NewTextHandler(&log, nil)) })
	produce(t, d, "one")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := d.Work(ctx, func(context.Context, string, string, []byte) error { refuse(); return nil })
	if !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("Work returned %v", err)
	}
	log.Await(t, "closed for good")
}

// refusing is a proxy of a server, which refuses its last client at a call.
func refusing(t *testing.T, target string) (url string, refuse func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	clients := make(chan net.Conn, 1)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", strings.TrimPrefix(target, "nats://"))
			if err != nil {
				_ = client.Close()
				return
			}
			clients <- client
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
		}
	}()
	return "nats://" + listener.Addr().String(), func() {
		_, _ = io.WriteString(<-clients, "-ERR 'Maximum Payload Violation'\r\n")
	}
}

func TestTheDemonstrationTellsOfEachCustomer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	picture := filepath.Join(t.TempDir(), "nats.svg")
	var out strings.Builder
	if err := program.Run(t.Context(), example(), []string{"-url", s.URL, "-svg", picture}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"In NATS level 1 is subject documents.1, and level 9 is subject documents.9.",
		"bakery           30 ", "clinic           30 ", "dentist          30 ", "archive         400 ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}

	d := open(t, s.URL, nil) // it has removed its own streams
	for name := range d.jetStream.StreamNames(t.Context()).Name() {
		if !strings.HasPrefix(name, "documents") {
			t.Errorf("the stream %s is left", name)
		}
	}
}

// Nothing is stored in memory, or dropped to make room.
func TestTheStreamsKeepWhatTheyHave(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	for _, stream := range []jetstream.Stream{d.waiting, d.dead} {
		c := stream.CachedInfo().Config
		if c.Storage != jetstream.FileStorage || c.Discard != jetstream.DiscardNew || c.MaxAge != 0 || c.MaxMsgs != -1 || c.MaxMsgsPerSubject != -1 {
			t.Errorf("%+v", c)
		}
	}
}

func quiet() *Options {
	return &Options{
		Name: "documents", Workers: 1, Limit: time.Minute, Backoff: []time.Duration{time.Millisecond, time.Millisecond},
		Logger: slog.New(slog.DiscardHandler), AckWait: 10 * time.Second,
	}
}

func startServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.StartNATS(t.Context())
	if missing := (*server.MissingError)(nil); errors.As(err, &missing) {
		redistest.Skip(t, err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func start(t *testing.T) (url string) {
	t.Helper()
	return startServer(t).URL
}
