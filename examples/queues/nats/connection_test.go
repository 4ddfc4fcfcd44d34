package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
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
	tooMany, badName := quiet(), quiet()
	tooMany.Replicas, badName.Name = 3, "my.documents"
	for _, options := range []*Options{tooMany, badName} {
		if _, err := Open(t.Context(), url, new(memory.Store), options); err == nil {
			t.Errorf("no error of %+v", options)
		} else {
			t.Log(err)
		}
	}
	d := open(t, url, func(o *Options) { o.Weights = []int64{0} })
	if err := d.Work(t.Context(), nil); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("a weight of 0: %v", err)
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
		Logger: slog.New(slog.DiscardHandler), AckWait: time.Minute,
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
