package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	amqp "github.com/rabbitmq/amqp091-go"
)

// A crash marks all of a classic queue's documents as redelivered.
func TestABacklogOutlivesMoreCrashesThanADocumentMay(t *testing.T) {
	t.Parallel()
	s := start(t, "", "")
	const losses = 2
	d := open(t, s.URL, func(o *Options) { o.Losses = losses })
	var documents []string
	for n := range 30 {
		documents = append(documents, fmt.Sprintf("document-%02d", n))
	}
	produce(t, d, documents...)
	for range losses + 1 {
		working, finish := context.WithCancel(t.Context())
		began := make(chan struct{}, len(documents))
		worked := make(chan error, 1)
		go func() {
			worked <- d.Work(working, func(ctx context.Context, _, _ string, _ []byte) error {
				began <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		<-began
		// All others are seen: those that came back went round.
		await(t, "the others wait for their turn", func() bool { return waiting(t, d, d.options.Name) >= len(documents)-1 })
		s.Kill()
		finish()
		if err := <-worked; err != nil {
			t.Error(err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	served := serve(t, d, len(documents), nil)
	slices.Sort(served)
	if !slices.Equal(slices.Compact(served), documents) {
		t.Errorf("served %q", served)
	}
}

func TestAllConnectionsHaveOneMarkOfTheServersRun(t *testing.T) {
	if quorum {
		redistest.Skip(t, "a quorum queue needs no mark: unset "+quorumEnvironment)
	}
	address, options := shared(t), usable(t.Name())
	const many = 20
	marks := make(chan string)
	for range many {
		go func() {
			var mark string
			d, err := Open(t.Context(), address, new(memory.Store), options)
			if err == nil {
				mark = d.producing.mark
				err = d.Close()
			}
			if err != nil {
				t.Error(err)
			}
			marks <- mark
		}()
	}
	seen := make(map[string]int)
	for range many {
		seen[<-marks]++
	}
	if len(seen) != 1 || seen[""] > 0 {
		t.Errorf("marks %v", seen)
	}
	open(t, address, nil) // and remove
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for field, spoil := range map[string]func(*Options){
		"Name":    func(o *Options) { o.Name = "" },
		"Workers": func(o *Options) { o.Workers = 0 },
		"Limit":   func(o *Options) { o.Limit = 0 },
		"Backoff": func(o *Options) { o.Backoff = nil },
		"Logger":  func(o *Options) { o.Logger = nil },
	} {
		options := usable("refused")
		spoil(options)
		_, err := Open(t.Context(), "amqp://127.0.0.1:1/", new(memory.Store), options)
		if !errors.Is(err, priority.ErrInvalidOption) || !strings.Contains(err.Error(), "invalid option: "+field+" is ") {
			t.Errorf("error %v, want one of %s", err, field)
		}
	}
}

// Anybody may put messages into the queue.
func TestForeignMessagesHurtNoWorker(t *testing.T) {
	d := open(t, shared(t), nil)
	onChannel(t, d, func(channel *amqp.Channel) error {
		for _, headers := range []amqp.Table{
			nil,
			{headerCustomer: int32(4), headerDocument: []byte("x")},
			{headerCustomer: "customer", headerDocument: "a", headerFailed: int64(-5), headerLost: int64(math.MinInt64)},
			{headerCustomer: "customer", headerDocument: "b", headerFailed: int64(math.MaxInt64)},
		} {
			if err := channel.PublishWithContext(t.Context(), "", d.options.Name, false, false, amqp.Publishing{Headers: headers}); err != nil {
				return err
			}
		}
		return nil
	})
	produce(t, d, "good")
	tries := make(map[string]int)
	serve(t, d, 1, func(_ context.Context, document string) error {
		if tries[document]++; document == "good" {
			return nil
		}
		return errors.New("fails")
	}, "", "b", "a")
	if tries[""] != 0 || tries["a"] != len(backoff)+1 || tries["b"] != 1 {
		t.Errorf("tries %v", tries)
	}
}

func TestAStoreThatErrsLeavesNothingInTheQueue(t *testing.T) {
	away := errors.New("away")
	d := open(t, shared(t), nil, &levels{err: away})
	if err := d.Produce(t.Context(), "customer", "document", nil); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
	if n := waiting(t, d, d.options.Name); n != 0 {
		t.Errorf("%d are in the queue", n)
	}
}

func TestAnOpenThatFailsLeavesNoConnection(t *testing.T) {
	address := shared(t)
	options := *open(t, address, nil).options
	options.MaxLength = 7 // declared without
	relayed, connections := relay(t, address)
	if d, err := Open(t.Context(), relayed, new(memory.Store), &options); err == nil {
		t.Error("no error", d.Close())
	}
	await(t, "no connection is left", func() bool { return connections.Load() == 0 })
}

// relay passes connections on and counts those that are open.
func relay(t *testing.T, address string) (relayed string, connections *atomic.Int32) {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	target := to.Host
	to.Host = listener.Addr().String()
	connections = new(atomic.Int32)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			connections.Add(1)
			go func() { _, _ = io.Copy(client, server) }()
			go func() {
				_, _ = io.Copy(server, client)
				_, _ = client.Close(), server.Close()
				connections.Add(-1)
			}()
		}
	}()
	return to.String(), connections
}

func TestAfterCloseNothingConnects(t *testing.T) {
	d, err := Open(t.Context(), shared(t), new(memory.Store), usable(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	worked := make(chan error)
	began := make(chan struct{})
	go func() {
		worked <- d.Work(t.Context(), func(ctx context.Context, _, _ string, _ []byte) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	produce(t, d, "document")
	<-began
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-worked; !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("Work: %v", err)
	}
	if err := d.Produce(t.Context(), "customer", "document", nil); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("Produce: %v", err)
	}
	open(t, shared(t), nil) // and remove
}

func TestAProcessDeafToItsContextIsLogged(t *testing.T) {
	t.Parallel()
	var log trial.Log
	d := open(t, shared(t), func(o *Options) {
		o.Limit = 50 * time.Millisecond
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	produce(t, d, "deaf")
	serve(t, d, 1, func(context.Context, string) error {
		log.Await(t, "level=ERROR .*still at work.* document=deaf")
		return nil
	})
}

func TestDeadEndsWithItsContext(t *testing.T) {
	d := open(t, shared(t), nil)
	onChannel(t, d, func(channel *amqp.Channel) error {
		return channel.PublishWithContext(t.Context(), "", d.dead(), false, false, amqp.Publishing{})
	})
	if _, _, err := d.consuming.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if dead, err := d.Dead(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("dead %q, error %v", dead, err)
	}
}
