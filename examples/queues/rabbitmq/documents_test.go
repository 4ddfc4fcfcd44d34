package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Without the type in the declaration, such a host refuses it.
func TestAVirtualHostOfQuorumQueuesTakesTheDeclaration(t *testing.T) {
	if os.Getenv("PRIORITY_RABBITMQ") != "" {
		redistest.Skip(t, "another version has a view of its own on this machine's files: unset PRIORITY_RABBITMQ")
	}
	t.Parallel()
	definitions := filepath.Join(t.TempDir(), "definitions.json")
	if err := os.WriteFile(definitions, []byte(`{
		"vhosts": [{"name": "/"}, {"name": "quorum", "metadata": {"default_queue_type": "quorum"}}],
		"users": [{"name": "guest", "password": "guest", "tags": "administrator", "limits": {}}],
		"permissions": [{"user": "guest", "vhost": "quorum", "configure": ".*", "write": ".*", "read": ".*"}]
	}`), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, "load_definitions = "+definitions+"\n", "")
	d := open(t, s.URL+"quorum", nil)
	produce(t, d, "document")
	if served := serve(t, d, 1, nil); !slices.Equal(served, []string{"document"}) {
		t.Errorf("served %q", served)
	}
}

func TestAFullQueueKeepsItsFirstLevels(t *testing.T) {
	store := &levels{of: map[string]priority.Level{"first": 1}}
	const most = 3
	d := open(t, shared(t), func(o *Options) { o.MaxLength = most }, store)
	want := []string{"first"}
	produce(t, d, want...)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		document := fmt.Sprint("document-", len(want))
		err := d.Produce(ctx, "customer", document, nil)
		cancel()
		if err != nil {
			if !strings.Contains(err.Error(), "the queue is full") {
				t.Error(err)
			}
			break
		}
		if want = append(want, document); len(want) > most+1 { // a quorum queue takes one more
			t.Fatalf("a queue of %d has taken %q", most, want)
		}
	}
	waited := make(chan error)
	go func() { waited <- d.Produce(t.Context(), "customer", "waits", nil) }()
	want = append(want, "waits")
	served := serve(t, d, len(want), nil)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if !slices.Equal(served, want) {
		t.Errorf("served %q, want %q", served, want)
	}
}

// What comes back to a full queue waits outside until there is room.
func TestAFullQueueDropsNoDocumentThatComesBack(t *testing.T) {
	d := open(t, shared(t), func(o *Options) { o.MaxLength, o.Backoff = 1, []time.Duration{3 * time.Second} })
	produce(t, d, "fails")
	began := 0
	serve(t, d, 3, func(context.Context, string) error {
		switch began++; began {
		case 1:
			produce(t, d, "next")
			return errors.New("not yet")
		case 2:
			produce(t, d, "fills")
			await(t, "the failed one is on its way back", func() bool { return waiting(t, d, d.retry(d.options.Backoff[0])) == 0 })
		}
		return nil
	})
}

func TestADocumentThatFailedKeepsItsLevel(t *testing.T) {
	store := &levels{of: map[string]priority.Level{"urgent": 1}}
	d := open(t, shared(t), func(o *Options) { o.Backoff = []time.Duration{3 * time.Second} }, store)
	produce(t, d, "urgent", "one", "two", "three")
	var tried []string
	serve(t, d, 4, func(_ context.Context, document string) error {
		tried = append(tried, document)
		switch len(tried) {
		case 1:
			return errors.New("not yet")
		case 2:
			await(t, "urgent is back", func() bool { return waiting(t, d, d.options.Name) == 3 })
		}
		return nil
	})
	if want := []string{"urgent", "one", "urgent", "two", "three"}; !slices.Equal(tried, want) {
		t.Errorf("tried %q, want %q", tried, want)
	}
}

func TestADocumentOverItsLimitIsCancelledAndFailed(t *testing.T) {
	d := open(t, shared(t), func(o *Options) { o.Limit = 50 * time.Millisecond })
	produce(t, d, "endless", "good")
	tries := 0
	served := serve(t, d, 1, func(ctx context.Context, document string) error {
		if document == "good" {
			return nil
		}
		tries++
		<-ctx.Done()
		return ctx.Err()
	}, "endless")
	if !slices.Equal(served, []string{"good"}) || tries != len(backoff)+1 {
		t.Errorf("served %q; endless was tried %d times", served, tries)
	}
}

func TestAPanicIsAFailure(t *testing.T) {
	d := open(t, shared(t), nil)
	produce(t, d, "panics", "good")
	served := serve(t, d, 1, func(_ context.Context, document string) error {
		if document == "panics" {
			panic(strings.Repeat("of this document", 1<<16)) // more than headers take
		}
		return nil
	}, "panics")
	if !slices.Equal(served, []string{"good"}) {
		t.Errorf("served %q", served)
	}
}

// The server closes the channel of a consumer that takes longer than its
// consumer_timeout, and says why.
func TestADocumentLongerThanTheServerWaitsIsCancelledAndTheReasonIsLogged(t *testing.T) {
	if os.Getenv("PRIORITY_RABBITMQ") != "" {
		redistest.Skip(t, "RabbitMQ 4.3 does not wait for less than a quorum queue's consumer asks for, and for ever on a classic one's: unset PRIORITY_RABBITMQ")
	}
	t.Parallel()
	s := start(t, "consumer_timeout = 1000\n", "-rabbit channel_tick_interval 500")
	var log trial.Log
	d := open(t, s.URL, func(o *Options) {
		o.Losses = 2
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	produce(t, d, "long", "good")
	served := serve(t, d, 1, func(ctx context.Context, document string) error {
		if document == "long" {
			<-ctx.Done()
		}
		return ctx.Err()
	}, "long")
	if !slices.Equal(served, []string{"good"}) {
		t.Errorf("served %q", served)
	}
	if reason := "delivery acknowledgement on channel"; !strings.Contains(log.String(), reason) {
		t.Errorf("not in the log: %s\n%s", reason, log.String())
	}
}

func TestADeletedQueueSwallowsNoDocument(t *testing.T) {
	d := open(t, shared(t), nil)
	remove(t, d, d.options.Name)
	produce(t, d, "document")
	if served := serve(t, d, 1, func(context.Context, string) error { return nil }); !slices.Equal(served, []string{"document"}) {
		t.Errorf("served %q", served)
	}
	produce(t, d, "fails")
	tries := 0
	serve(t, d, 1, func(context.Context, string) error {
		if tries++; tries == 1 {
			remove(t, d, d.retry(backoff[0]))
			return errors.New("not yet")
		}
		return nil
	})
}

// A queue of the server's own making keeps what waits in it until the next queue
// has it for certain.
func TestACrashLosesNoDocumentThatWaitsForItsNextTry(t *testing.T) {
	t.Parallel()
	s := start(t, "", "")
	d := open(t, s.URL, func(o *Options) { o.Workers, o.Backoff = 8, []time.Duration{time.Second} })
	var documents []string
	for n := range 200 {
		documents = append(documents, fmt.Sprint("document-", n))
	}
	produce(t, d, documents...)
	var mutex sync.Mutex
	failed := make(map[string]bool)
	var crash sync.Once
	served := serve(t, d, len(documents), func(_ context.Context, document string) error {
		mutex.Lock()
		again := failed[document]
		failed[document] = true
		mutex.Unlock()
		if !again {
			return errors.New("not yet")
		}
		crash.Do(func() { // while the others are on their way back
			s.Kill()
			if err := s.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	slices.Sort(served)
	if got := len(slices.Compact(served)); got != len(documents) {
		t.Errorf("%d of %d were served", got, len(documents))
	}
}

func TestCustomersAndDocumentsMayBeAnyBytes(t *testing.T) {
	hostile := strings.Repeat("\xff\x00\n\"{}é", 70)[:512]
	d := open(t, shared(t), nil)
	for _, document := range []string{hostile, hostile[1:]} {
		if err := d.Produce(t.Context(), hostile, document, []byte(hostile)); err != nil {
			t.Fatal(err)
		}
	}
	served := serve(t, d, 1, func(_ context.Context, document string) error {
		if document == hostile {
			return errors.New("fails")
		}
		return nil
	}, hostile)
	if !slices.Equal(served, []string{hostile[1:]}) {
		t.Errorf("served %q", served)
	}
	now, err := d.store.Peek(t.Context(), hostile)
	if err != nil || now.Pending != 0 {
		t.Errorf("%d are pending, error %v", now.Pending, err)
	}
}

// A body that is too long for the server is so the next time, too.
func TestADocumentThatTheServerRefusesIsAnErrorAtOnce(t *testing.T) {
	d := open(t, shared(t), nil)
	err := d.Produce(t.Context(), "customer", "long", make([]byte, 129<<20)) // 128 MiB; 16 from 4.0 on
	if !isRefused(err) || !strings.Contains(err.Error(), "message size") {
		t.Errorf("error %v", err)
	}
	if now, err := d.store.Peek(t.Context(), "customer"); err != nil || now.Pending != 0 {
		t.Errorf("%d are pending, error %v", now.Pending, err)
	}
}

// A server that reads nothing, as one that is short of memory, holds up nobody whose
// time is over.
func TestProduceEndsWithItsContext(t *testing.T) {
	address, err := url.Parse(shared(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := redistest.StartProxy(t, address.Host)
	address.Host = proxy.Addr
	d := open(t, address.String(), nil)
	for _, fault := range []redistest.Fault{redistest.Blackhole, redistest.Swallow} {
		proxy.Set(fault)
		for _, what := range []string{"on an old channel", "on a new one"} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			began := time.Now()
			err := d.Produce(ctx, "customer", what, nil)
			cancel()
			if took := time.Since(began); took > 15*time.Second { // the heartbeats end the connection after 30
				t.Errorf("%s: it was held up for %v", what, took)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v", what, err)
			}
		}
		proxy.Set(redistest.None)
		proxy.CloseConnections()
	}
	remove(t, d, d.options.Name)
}

func TestQuorumQueuesWithoutPrioritiesAreRefused(t *testing.T) {
	refused := usable("refused")
	refused.Quorum = true
	_, err := Open(t.Context(), shared(t), new(memory.Store), refused)
	if os.Getenv("PRIORITY_RABBITMQ") == "" && (err == nil || !strings.Contains(err.Error(), "server 3.10.8: a quorum queue has no priorities before RabbitMQ 4.0")) {
		t.Errorf("error %v", err)
	}
}

func TestAWrongAddressIsAnErrorAtOnce(t *testing.T) {
	right := shared(t)
	for address, want := range map[string]string{
		"amqp://guest:guest@127.0.0.1:1/":            "connection refused",
		"http://127.0.0.1/":                          "AMQP scheme",
		strings.Replace(right, ":guest@", ":no@", 1): "username or password not allowed",
		right + "nowhere":                            "vhost nowhere not found",
	} {
		_, err := Open(t.Context(), address, new(memory.Store), usable("documents"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", address, err, want)
		}
	}
}

func TestTheDemonstrationTellsOfEveryCustomer(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "flood.svg")
	var out strings.Builder
	args := append([]string{"-url", shared(t), "-svg", picture}, flags...)
	if err := program.Run(t.Context(), example(), args, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"archive         400 ", "bakery           30 ", "clinic           30 ", "dentist          30 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); err == nil; {
		_, err = decoder.Token()
	}
	if err != io.EOF {
		t.Error(err)
	}
}

var backoff = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}

func start(t *testing.T, settings, arguments string) *server.Server {
	t.Helper()
	s, err := server.StartRabbitMQWith(t.Context(), settings, arguments)
	if missing := (*server.MissingError)(nil); errors.As(err, &missing) {
		redistest.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func usable(name string) *Options {
	return &Options{
		Name: name, Workers: 1, Limit: time.Minute, Backoff: backoff, Quorum: quorum,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// open opens a queue of the test's own, which is removed after it.
func open(t *testing.T, address string, set func(*Options), stores ...priority.Store) *Documents {
	t.Helper()
	options := usable(t.Name())
	if set != nil {
		set(options)
	}
	var store priority.Store = new(memory.Store)
	if len(stores) > 0 {
		store = stores[0]
	}
	d, err := Open(t.Context(), address, store, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func produce(t *testing.T, d *Documents, documents ...string) {
	t.Helper()
	for _, document := range documents {
		if err := d.Produce(t.Context(), "customer", document, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// serve works until as many documents were served and just those dead, and returns
// them in the order of service.
func serve(t *testing.T, d *Documents, documents int, process func(ctx context.Context, document string) error, dead ...string) []string {
	t.Helper()
	working, finish := context.WithCancel(t.Context())
	defer finish()
	var mutex sync.Mutex
	var served []string
	worked := make(chan error, 1)
	go func() {
		worked <- d.Work(working, func(ctx context.Context, _, document string, _ []byte) error {
			if process != nil {
				if err := process(ctx, document); err != nil {
					return err
				}
			}
			mutex.Lock()
			defer mutex.Unlock()
			served = append(served, document)
			return nil
		})
	}()
	await(t, fmt.Sprint(documents, " documents are served"), func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return len(slices.Compact(slices.Sorted(slices.Values(served)))) >= documents
	})
	await(t, fmt.Sprintf("%q are dead", dead), func() bool {
		now, err := d.Dead(t.Context())
		return err == nil && slices.Equal(slices.Compact(now), dead)
	})
	finish()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	return served
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

// waiting is how many documents are in a queue for someone to take.
func waiting(t *testing.T, d *Documents, queue string) (waiting int) {
	t.Helper()
	onChannel(t, d, func(channel *amqp.Channel) error {
		state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		waiting = state.Messages
		return err
	})
	return waiting
}

func remove(t *testing.T, d *Documents, queue string) {
	t.Helper()
	onChannel(t, d, func(channel *amqp.Channel) error {
		_, err := channel.QueueDelete(queue, false, false, false)
		return err
	})
}

// onChannel uses one that declares nothing.
func onChannel(t *testing.T, d *Documents, use func(*amqp.Channel) error) {
	t.Helper()
	connection, err := amqp.Dial(d.consuming.url)
	if err != nil {
		t.Error(err)
		return
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err == nil {
		err = use(channel)
	}
	if err != nil {
		t.Error(err)
	}
}

// levels is a store that gives documents the levels that the test says, and 5.
type levels struct {
	memory.Store
	of  map[string]priority.Level
	err error
}

func (l *levels) Submit(_ context.Context, _, document string) (priority.Decision, error) {
	if level, ok := l.of[document]; ok {
		return priority.Decision{Level: level}, l.err
	}
	return priority.Decision{Level: 5}, l.err
}
