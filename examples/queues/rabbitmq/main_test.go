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
	amqp "github.com/rabbitmq/amqp091-go"
)

const expected = `archive uploads 60 documents, then bakery 3 and clinic 6; then a worker starts.

In RabbitMQ the levels 1 to 9 are the priorities 8 7 6 5 4 3 2 1 0.

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
	err := run(t.Context(), "", &out)
	servertest.SkipIfMissing(t, err)
	if err != nil || out.String() != expected {
		t.Errorf("error %v, output\n%s\nwant\n%s", err, out.String(), expected)
	}
}

func TestOrder(t *testing.T) {
	connection, err := amqp.Dial(servertest.Start(t, server.StartRabbitMQ))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	for _, last := range servertest.Policies {
		d := openTest(t, connection, last)
		documents := servertest.Documents(last)
		for _, document := range documents {
			if err := d.publish(t.Context(), document.Level, document.String()); err != nil {
				t.Fatal(err)
			}
		}
		served, err := flood.Collect(t.Context(), len(documents), d.consume)
		if err != nil {
			t.Fatal(err)
		}
		servertest.CheckOrder(t, last, 11, served)
	}

	t.Run("an urgent document overtakes", func(t *testing.T) {
		d := openTest(t, connection, 9)
		servertest.CheckOvertaking(t, d.publish, d.consume)
	})

	t.Run("a document that failed keeps its priority", func(t *testing.T) {
		d := openTest(t, connection, 9)
		for _, level := range []priority.Level{9, 5, 2} {
			if err := d.publish(t.Context(), level, servertest.Document{Level: level, Name: "document"}.String()); err != nil {
				t.Fatal(err)
			}
		}
		var tried []string
		_, err := flood.Collect(t.Context(), 3, func(ctx context.Context, process func(string) error) error {
			return d.consume(ctx, func(document string) error {
				tried = append(tried, document)
				if strings.HasSuffix(document, "5") && len(tried) == 2 {
					return errors.New("failed")
				}
				return process(document)
			})
		})
		want := []string{"document of level 2", "document of level 5", "document of level 5", "document of level 9"}
		if err != nil || !slices.Equal(tried, want) {
			t.Errorf("tried %q, error %v; want %q", tried, err, want)
		}
	})
}

func openTest(t *testing.T, connection *amqp.Connection, last priority.Level) *documents {
	t.Helper()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = channel.Close() })
	d, err := open(channel, fmt.Sprint(t.Name(), last), last)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
