package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	priorityrabbitmq "github.com/docpriority/priority/queue/rabbitmq"
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
	q := openAt(t, trial.Start(t, startWith("load_definitions = "+definitions+"\n", "")).URL+"quorum", nil)
	q.Send("document")
	q.Serve(nil)
	q.AwaitServed("document")
}

func TestAFullQueueKeepsItsFirstLevels(t *testing.T) {
	const most = 3
	q := open(t, func(o *priorityrabbitmq.Options) { o.MaxLength = most })
	q.SendAt(1, "first")
	want := []string{"first"}
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		document := fmt.Sprint("document-", len(want))
		err := q.Produce(ctx, "acme", document, nil)
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
	go func() { waited <- q.Produce(t.Context(), "acme", "waits", nil) }()
	q.Serve(nil)
	q.AwaitServed(append(want, "waits")...)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if q.Served()[0] != "first" {
		t.Errorf("served %q", q.Served())
	}
}

// What comes back to a full queue waits outside until there is room.
func TestAFullQueueDropsNoDocumentThatComesBack(t *testing.T) {
	q := open(t, func(o *priorityrabbitmq.Options) { o.MaxLength, o.Backoff = 1, []time.Duration{3 * time.Second} })
	q.Send("fails")
	began := 0
	q.Serve(func(context.Context, string) error {
		switch began++; began {
		case 1:
			q.Send("next")
			return errors.New("not yet")
		case 2:
			q.Send("fills")
			trial.Await(t, "the failed one is on its way back", func() bool { return q.waiting(q.Name()+".retry.3s") == 0 })
		}
		return nil
	})
	q.AwaitServed("next", "fills", "fails")
}

// The server closes the channel of a consumer that takes longer than its
// consumer_timeout, and says why.
func TestADocumentLongerThanTheServerWaitsIsCancelledAndTheReasonIsLogged(t *testing.T) {
	if os.Getenv("PRIORITY_RABBITMQ") != "" {
		redistest.Skip(t, "RabbitMQ 4.3 does not wait for less than a quorum queue's consumer asks for, and for ever on a classic one's: unset PRIORITY_RABBITMQ")
	}
	t.Parallel()
	s := trial.Start(t, startWith("consumer_timeout = 1000\n", "-rabbit channel_tick_interval 500"))
	var log trial.Log
	q := openAt(t, s.URL, func(o *priorityrabbitmq.Options) {
		o.Losses, o.Logger = 2, slog.New(slog.NewTextHandler(&log, nil))
	})
	q.Send("long", "good")
	q.Serve(func(ctx context.Context, document string) error {
		if document == "long" {
			<-ctx.Done()
		}
		return ctx.Err()
	})
	q.AwaitServed("good")
	q.AwaitDead("long")
	log.Await(t, "delivery acknowledgement on channel")
}

func TestADeletedQueueSwallowsNoDocument(t *testing.T) {
	q := open(t, nil)
	q.remove(q.Name())
	q.Send("document", "fails")
	tries := 0
	q.Serve(func(_ context.Context, document string) error {
		if document == "fails" {
			if tries++; tries == 1 {
				q.remove(q.Name() + ".retry.100ms")
				return errors.New("not yet")
			}
		}
		return nil
	})
	q.AwaitServed("document", "fails")
}

// A queue of the server's own making keeps what waits in it until the next queue
// has it for certain.
func TestACrashLosesNoDocumentThatWaitsForItsNextTry(t *testing.T) {
	t.Parallel()
	s := trial.Start(t, server.StartRabbitMQ)
	q := openAt(t, s.URL, func(o *priorityrabbitmq.Options) { o.Workers, o.Backoff = 8, []time.Duration{time.Second} })
	var documents []string
	for n := range 200 {
		documents = append(documents, fmt.Sprintf("document-%03d", n))
	}
	q.Send(documents...)
	var failed sync.Map
	var crash sync.Once
	q.Serve(func(_ context.Context, document string) error {
		if _, again := failed.LoadOrStore(document, true); !again {
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
	q.awaitAll(documents)
}

// A body that is too long for the server is so the next time, too.
func TestADocumentThatTheServerRefusesIsAnErrorAtOnce(t *testing.T) {
	q := open(t, nil)
	err := q.Produce(t.Context(), "acme", "long", make([]byte, 129<<20)) // 128 MiB; 16 from 4.0 on
	if err == nil || t.Context().Err() != nil || !strings.Contains(err.Error(), "message size") {
		t.Errorf("error %v", err)
	}
	q.AwaitNothingPending()
}

// A server that reads nothing, as one that is short of memory, holds up nobody whose
// time is over.
func TestProduceEndsWithItsContext(t *testing.T) {
	address, proxy := proxied(t)
	q := openAt(t, address, nil)
	for _, fault := range []redistest.Fault{redistest.Blackhole, redistest.Swallow} {
		proxy.Set(fault)
		for _, what := range []string{"on an old channel", "on a new one"} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			began := time.Now()
			err := q.Produce(ctx, "acme", what, nil)
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
}

func TestQuorumQueuesWithoutPrioritiesAreRefused(t *testing.T) {
	_, err := priorityrabbitmq.Open(t.Context(), subject().Server(t), "refused", new(memory.Store), &priorityrabbitmq.Options{Quorum: true})
	if os.Getenv("PRIORITY_RABBITMQ") == "" && (err == nil || !strings.Contains(err.Error(), "server 3.10.8: a quorum queue has no priorities before RabbitMQ 4.0")) {
		t.Errorf("error %v", err)
	}
}

func TestAWrongAddressIsAnErrorAtOnce(t *testing.T) {
	right := subject().Server(t)
	for address, want := range map[string]string{
		"amqp://guest:guest@127.0.0.1:1/":            "connection refused",
		"http://127.0.0.1/":                          "AMQP scheme",
		strings.Replace(right, ":guest@", ":no@", 1): "username or password not allowed",
		right + "nowhere":                            "vhost nowhere not found",
	} {
		_, err := priorityrabbitmq.Open(t.Context(), address, "documents", new(memory.Store), usable())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", address, err, want)
		}
	}
}

// A crash marks all of a classic queue's documents as redelivered.
func TestABacklogOutlivesMoreCrashesThanADocumentMay(t *testing.T) {
	t.Parallel()
	s := trial.Start(t, server.StartRabbitMQ)
	const losses = 2
	q := openAt(t, s.URL, func(o *priorityrabbitmq.Options) { o.Losses = losses })
	var documents []string
	for n := range 30 {
		documents = append(documents, fmt.Sprintf("document-%02d", n))
	}
	q.Send(documents...)
	for range losses + 1 {
		began := make(chan struct{}, len(documents))
		stop := q.Serve(func(ctx context.Context, _ string) error {
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		<-began
		// All others are seen: those that came back went round.
		trial.Await(t, "the others wait for their turn", func() bool { return q.waiting(q.Name()) >= len(documents)-1 })
		s.Kill()
		stop()
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	q.Serve(nil)
	q.awaitAll(documents)
}

func TestAllConnectionsHaveOneMarkOfTheServersRun(t *testing.T) {
	if quorum {
		redistest.Skip(t, "a quorum queue needs no mark: unset "+quorumEnvironment)
	}
	q := open(t, nil)
	const many = 20
	var all sync.WaitGroup
	for n := range many {
		all.Go(func() {
			other, err := priorityrabbitmq.Open(t.Context(), q.url, q.Name(), new(memory.Store), usable())
			if err == nil {
				d := documents{other}
				err = errors.Join(d.Produce(t.Context(), "acme", fmt.Sprint(n), nil), d.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := make(map[any]int)
	q.onChannel(func(channel *amqp.Channel) error {
		for {
			delivery, ok, err := channel.Get(q.Name(), true)
			if err != nil || !ok {
				return err
			}
			seen[delivery.Headers["priority-boot"]]++
		}
	})
	if len(seen) != 1 || seen[""] > 0 {
		t.Errorf("marks %v", seen)
	}
}

// Anybody may put messages into the queue.
func TestForeignMessagesHurtNoWorker(t *testing.T) {
	q := open(t, nil)
	q.onChannel(func(channel *amqp.Channel) error {
		for _, headers := range []amqp.Table{
			nil,
			{priorityrabbitmq.HeaderCustomer: int32(4), priorityrabbitmq.HeaderDocument: []byte("x")},
			{priorityrabbitmq.HeaderCustomer: "customer", priorityrabbitmq.HeaderDocument: "a", "priority-failed": int64(-5), "priority-lost": int64(math.MinInt64)},
			{priorityrabbitmq.HeaderCustomer: "customer", priorityrabbitmq.HeaderDocument: "b", "priority-failed": int64(math.MaxInt64)},
		} {
			if err := channel.PublishWithContext(t.Context(), "", q.Name(), false, false, amqp.Publishing{Headers: headers}); err != nil {
				return err
			}
		}
		return nil
	})
	q.Send("good")
	var a, b, nameless atomic.Int32
	tries := map[string]*atomic.Int32{"a": &a, "b": &b, "": &nameless, "good": new(atomic.Int32)}
	q.Serve(func(_ context.Context, document string) error {
		if tries[document].Add(1); document == "good" {
			return nil
		}
		return errors.New("fails")
	})
	q.AwaitServed("good")
	q.AwaitDead("", "a", "b")
	if int(nameless.Load()) != 2*(len(backoff)+1) || int(a.Load()) != len(backoff)+1 || b.Load() != 1 {
		t.Errorf("tries: %d, %d, %d", nameless.Load(), a.Load(), b.Load())
	}
}

func TestAnOpenThatFailsLeavesNoConnection(t *testing.T) {
	q, options := open(t, nil), usable()
	options.MaxLength = 7 // declared without
	address, proxy := proxied(t)
	if d, err := priorityrabbitmq.Open(t.Context(), address, q.Name(), new(memory.Store), options); err == nil {
		t.Error("no error", d.Close())
	}
	trial.Await(t, "no connection is left", func() bool { return proxy.Connections() == 0 })
}

func TestAfterCloseNothingConnects(t *testing.T) {
	q := open(t, nil)
	opened, err := priorityrabbitmq.Open(t.Context(), q.url, q.Name(), new(memory.Store), usable())
	if err != nil {
		t.Fatal(err)
	}
	d := documents{opened}
	worked := make(chan error)
	began := make(chan struct{})
	go func() {
		worked <- d.Work(t.Context(), func(ctx context.Context, _, _ string, _ []byte) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	q.Send("document")
	<-began
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-worked; !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("Work: %v", err)
	}
	if err := d.Produce(t.Context(), "acme", "document", nil); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("Produce: %v", err)
	}
}

func TestAProcessDeafToItsContextIsLogged(t *testing.T) {
	t.Parallel()
	var log trial.Log
	q := open(t, func(o *priorityrabbitmq.Options) {
		o.Limit, o.Logger = 50*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))
	})
	q.Send("deaf")
	q.Serve(func(context.Context, string) error {
		log.Await(t, "level=ERROR .*still at work.* document=deaf")
		return nil
	})
	q.AwaitServed("deaf")
}

func TestDeadEndsWithItsContext(t *testing.T) {
	q := open(t, nil)
	q.onChannel(func(channel *amqp.Channel) error {
		return channel.PublishWithContext(t.Context(), "", q.Name()+".dead", false, false, amqp.Publishing{})
	})
	q.AwaitDead("")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if dead, err := q.Dead(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("dead %q, error %v", dead, err)
	}
}

// It takes a team's connection, and leaves it as it was.
func TestAConnectionOfTheTeamsStays(t *testing.T) {
	q := open(t, nil)
	connection, err := amqp.Dial(q.url)
	if err != nil {
		t.Fatal(err)
	}
	own, err := priorityrabbitmq.New(t.Context(), connection, q.Name(), q.Store, usable())
	if err != nil {
		t.Fatal(err)
	}
	if err := (documents{own}).Produce(t.Context(), "acme", "document", nil); err != nil {
		t.Error(err)
	}
	if err := own.Close(); err != nil || connection.IsClosed() {
		t.Errorf("the connection is closed: %v, error %v", connection.IsClosed(), err)
	}
	if own, err = priorityrabbitmq.New(t.Context(), connection, q.Name(), q.Store, usable()); err != nil {
		t.Fatal(err)
	}
	if err := connection.Close(); err != nil {
		t.Error(err)
	}
	_, dead := own.Dead(t.Context())
	for what, err := range map[string]error{
		"Publish": (documents{own}).Produce(t.Context(), "acme", "late", nil),
		"Work":    own.Work(t.Context(), nil),
		"Handle":  own.Handle(t.Context(), amqp.Delivery{}, nil),
		"Dead":    dead,
	} {
		if !errors.Is(err, amqp.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	q.Serve(nil)
	q.AwaitServed("document")
}

func TestADocumentThatNoQueueTakesIsAnErrorAtOnce(t *testing.T) {
	q := open(t, nil)
	for exchange, want := range map[string]string{"amq.direct": "no queue took it", "nowhere": "no exchange 'nowhere'"} {
		err := q.Publish(t.Context(), exchange, "nobody's", amqp.Publishing{}, priorityrabbitmq.Document{Customer: "acme"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	q.AwaitNothingPending()
}

// It has the level of now and all tries; nobody retries it a second time.
func TestALetterIsRetriedOnce(t *testing.T) {
	q := open(t, nil)
	q.SendAt(9, "first")
	q.Send("second")
	fail := make(chan error, 100)
	for range 2 * (len(backoff) + 1) {
		fail <- errors.New("not today")
	}
	stop := q.Serve(func(context.Context, string) error {
		select {
		case err := <-fail:
			return err
		default:
			return nil
		}
	})
	q.AwaitDead("first", "second")
	stop()
	letters, err := q.Queue.Dead(t.Context())
	if err != nil || len(letters) != 2 {
		t.Fatalf("%+v, error %v", letters, err)
	}
	for _, letter := range letters {
		if letter.Customer != "acme" || !strings.Contains(letter.Reason, "not today") || letter.Tries != len(backoff)+1 || time.Since(letter.At) > time.Hour {
			t.Errorf("%+v", letter)
		}
	}

	other, err := priorityrabbitmq.Open(t.Context(), q.url, q.Name(), q.Store, usable())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	retried := make(chan error)
	for range 2 {
		go func() { retried <- q.Retry(t.Context(), letters[0]) }()
		go func() { retried <- other.Retry(t.Context(), letters[0]) }()
	}
	done := 0
	for range 4 {
		switch err := <-retried; {
		case err == nil:
			done++
		case !errors.Is(err, priorityrabbitmq.ErrNoLetter):
			t.Error(err)
		}
	}
	if waiting := q.waiting(q.Name()); done != 1 || waiting != 1 {
		t.Errorf("retried %d times, %d in the queue", done, waiting)
	}
	if state, err := q.Store.Peek(t.Context(), "acme"); err != nil || state.Pending != 1 {
		t.Errorf("%+v, error %v", state, err)
	}
	q.AwaitDead(letters[1].Document)
	q.Serve(nil)
	q.AwaitServed(letters[0].Document)
	q.AwaitNothingPending()
}

// A worker that was lost while it gave a document up leaves two.
func TestADocumentThatIsTwiceAmongTheDeadIsOneLetter(t *testing.T) {
	q := open(t, nil)
	headers := amqp.Table{priorityrabbitmq.HeaderCustomer: "acme", priorityrabbitmq.HeaderDocument: "twice"}
	q.onChannel(func(channel *amqp.Channel) error {
		for range 2 {
			for _, message := range []amqp.Publishing{{Headers: headers}, {Body: []byte("of somebody")}} {
				if err := channel.PublishWithContext(t.Context(), "", q.Name()+".dead", false, false, message); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for range 2 {
		letters, err := q.Queue.Dead(t.Context())
		if err != nil || len(letters) != 3 || letters[0].Document != "twice" || letters[1].Document != "" {
			t.Errorf("%+v, error %v", letters, err)
		}
	}
	letters, _ := q.Queue.Dead(t.Context())
	for _, letter := range letters {
		if err := q.Retry(t.Context(), letter); err != nil {
			t.Errorf("%+v: %v", letter, err)
		}
	}
	if waiting := q.waiting(q.Name()); waiting != 3 {
		t.Errorf("%d are in the queue", waiting)
	}
}

var backoff = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}

func usable() *priorityrabbitmq.Options {
	return &priorityrabbitmq.Options{Workers: 1, Backoff: backoff, Quorum: quorum, Logger: slog.New(slog.DiscardHandler)}
}

// opened is a queue of the test's own.
type opened struct {
	documents
	*trial.Bench
	t   *testing.T
	url string
}

// open opens a queue on the server of most tests.
func open(t *testing.T, set func(*priorityrabbitmq.Options)) *opened {
	t.Helper()
	return openAt(t, subject().Server(t), set)
}

func openAt(t *testing.T, url string, set func(*priorityrabbitmq.Options)) *opened {
	t.Helper()
	options, store := usable(), new(trial.Store)
	if set != nil {
		set(options)
	}
	queue, err := priorityrabbitmq.Open(t.Context(), url, t.Name(), store, options)
	if err != nil {
		t.Fatal(err)
	}
	d := documents{queue}
	t.Cleanup(func() {
		if err := errors.Join(d.Remove(context.WithoutCancel(t.Context())), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return &opened{d, trial.NewBench(t, d, store), t, url}
}

// proxied returns the address of the server of most tests behind a proxy.
func proxied(t *testing.T) (string, *redistest.Proxy) {
	t.Helper()
	address, err := url.Parse(subject().Server(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := redistest.StartProxy(t, address.Host)
	address.Host = proxy.Addr
	return address.String(), proxy
}

// awaitAll returns when all of these documents were served, some of them more than once.
func (q *opened) awaitAll(documents []string) {
	q.t.Helper()
	trial.Await(q.t, "all are served", func() bool {
		return slices.Equal(slices.Compact(slices.Sorted(slices.Values(q.Served()))), documents)
	})
}

// waiting is how many documents are in a queue for someone to take.
func (q *opened) waiting(queue string) (waiting int) {
	q.t.Helper()
	q.onChannel(func(channel *amqp.Channel) error {
		state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		waiting = state.Messages
		return err
	})
	return waiting
}

func (q *opened) remove(queue string) {
	q.t.Helper()
	q.onChannel(func(channel *amqp.Channel) error {
		_, err := channel.QueueDelete(queue, false, false, false)
		return err
	})
}

// onChannel uses one that declares nothing.
func (q *opened) onChannel(use func(*amqp.Channel) error) {
	q.t.Helper()
	connection, err := amqp.Dial(q.url)
	if err != nil {
		q.t.Error(err)
		return
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err == nil {
		err = use(channel)
	}
	if err != nil {
		q.t.Error(err)
	}
}

// What the protocol has no room for would close the connection, at each try, with all that
// others publish on it.
func TestAMessageThatCannotBeSentIsAnErrorAtOnce(t *testing.T) {
	q := open(t, nil)
	long := strings.Repeat("x", 256)
	for what, message := range map[string]amqp.Publishing{
		"a type of no header":   {Headers: amqp.Table{"pages": uint(1)}},
		"long content type":     {ContentType: long},
		"long name":             {Headers: amqp.Table{long: 1}},
		"long name in a table":  {Headers: amqp.Table{"x": []any{amqp.Table{long: 1}}}},
		"headers over a frame":  {Headers: amqp.Table{"x": strings.Repeat("x", 200_000)}},
		"headers near a frame":  {Headers: amqp.Table{"x": strings.Repeat("x", 131_000)}},
		"no room for what came": {Headers: amqp.Table{"x": strings.Repeat("x", 127_000)}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := q.Publish(ctx, "", q.Name(), message, priorityrabbitmq.Document{Customer: "acme", ID: what})
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s: error %v", what, err)
		}
		cancel()
	}
	q.AwaitNothingPending()
	most := amqp.Publishing{Headers: amqp.Table{"x": strings.Repeat("x", 125_000)}}
	if err := q.Publish(t.Context(), "", q.Name(), most, priorityrabbitmq.Document{Customer: "acme", ID: "most"}); err != nil {
		t.Error(err)
	}
}
