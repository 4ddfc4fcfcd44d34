package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/flood"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/servertest"
	"github.com/docpriority/priority/queue"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const expected = `archive uploads 60 documents, then bakery 3 and clinic 6; then a worker starts.

In NATS level 1 is subject documents.1, and level 9 is subject documents.9.

served as no.  with the module        served as no.  without it
      1 to  3  archive 1 to 3               1 to 60  archive 1 to 60
      4 to  6  bakery 1 to 3               61 to 63  bakery 1 to 3
      7 to  9  clinic 1 to 3               64 to 69  clinic 1 to 6
     10 to 11  archive 4 to 5
     12 to 13  clinic 4 to 5
     14 to 15  archive 6 to 7
           16  clinic 6
     17 to 69  archive 8 to 60
`

func TestRun(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), "", false, &out)
	servertest.SkipIfMissing(t, err)
	if err != nil || out.String() != expected {
		t.Errorf("error %v, output\n%s\nwant\n%s", err, out.String(), expected)
	}
}

func TestOrder(t *testing.T) {
	url := servertest.Start(t, server.StartNATS)
	connection, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	js, err := jetstream.New(connection)
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range servertest.Policies {
		d, err := open(t.Context(), js, fmt.Sprint("policy-", last), last)
		if err != nil {
			t.Fatal(err)
		}
		documents := servertest.Documents(last)
		for _, document := range documents {
			if err := d.publish(t.Context(), document.Level, document.String()); err != nil {
				t.Fatal(err)
			}
		}
		served, err := flood.Collect(t.Context(), len(documents), func(ctx context.Context, process func(string) error) error {
			return d.consume(ctx, &queue.Picker{}, process)
		})
		if err != nil {
			t.Fatal(err)
		}
		servertest.CheckOrder(t, last, last, served)
	}

	t.Run("an urgent document overtakes", func(t *testing.T) {
		d, err := open(t.Context(), js, "overtaking", 9)
		if err != nil {
			t.Fatal(err)
		}
		servertest.CheckOvertaking(t, d.publish, func(ctx context.Context, process func(string) error) error {
			return d.consume(ctx, &queue.Picker{}, process)
		})
	})

	t.Run("by weight the last level is served too", func(t *testing.T) {
		picker, err := queue.NewPicker(3, 1)
		if err != nil {
			t.Fatal(err)
		}
		d, err := open(t.Context(), js, "weighted", 2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			for _, level := range []priority.Level{2, 1} {
				if err := d.publish(t.Context(), level, fmt.Sprintf("%d of level %d", i+1, level)); err != nil {
					t.Fatal(err)
				}
			}
		}
		served, err := flood.Collect(t.Context(), 8, func(ctx context.Context, process func(string) error) error {
			return d.consume(ctx, picker, process)
		})
		want := []string{
			"1 of level 1", "2 of level 1", "1 of level 2", "3 of level 1",
			"4 of level 1", "2 of level 2", "3 of level 2", "4 of level 2",
		}
		if err != nil || !slices.Equal(served, want) {
			t.Errorf("served %q, error %v; want %q", served, err, want)
		}
	})

	t.Run("a document that failed keeps its level", func(t *testing.T) {
		d, err := open(t.Context(), js, "retry", 9)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range []string{"fails", "waits"} {
			for _, level := range []priority.Level{9, 5} {
				if err := d.publish(t.Context(), level, fmt.Sprint(document, " at ", level)); err != nil {
					t.Fatal(err)
				}
			}
		}
		var tried []string
		_, err = flood.Collect(t.Context(), 4, func(ctx context.Context, process func(string) error) error {
			return d.consume(ctx, &queue.Picker{}, func(document string) error {
				tried = append(tried, document)
				if len(tried) == 1 {
					return errors.New("failed")
				}
				return process(document)
			})
		})
		if len(tried) > 3 {
			slices.Sort(tried[1:3]) // the redelivery may take a moment
		}
		want := []string{"fails at 5", "fails at 5", "waits at 5", "fails at 9", "waits at 9"}
		if err != nil || !slices.Equal(tried, want) {
			t.Errorf("tried %q, error %v; want %q", tried, err, want)
		}
	})
}

// TestNothingIsLeft: the example removes its streams from a server that is not its own.
func TestNothingIsLeft(t *testing.T) {
	url := servertest.Start(t, server.StartNATS)
	if err := run(t.Context(), url, true, &strings.Builder{}); err != nil {
		t.Fatal(err)
	}
	connection, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	js, err := jetstream.New(connection)
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("the stream %s is left", name)
	}
}
