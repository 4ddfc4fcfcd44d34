package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/memory"
	prioritynats "github.com/docpriority/priority/queue/nats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestADocumentThatIsProducedTwiceIsServedOnce(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	q.Send("first", "first", "last")
	stop := q.Serve(nil)
	q.AwaitServed("first", "last")
	stop()
	q.Send("first", "more") // the first was served: nobody else will say that it is done
	q.Serve(nil)
	q.AwaitServed("first", "last", "more")
	q.AwaitNothingPending()
}

// The team's own id of the message says that it is the same, though each has an id of
// Publish's.
func TestAMessageThatIsPublishedTwiceIsServedOnce(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	message := nats.NewMsg("ignored")
	message.Header.Set(jetstream.MsgIDHeader, "upload-7")
	for first := true; ; first = false {
		ack, err := q.Publish(t.Context(), "acme", "", message)
		if err != nil || ack.Duplicate == first {
			t.Fatalf("%+v, %v", ack, err)
		}
		if !first {
			break
		}
	}
	if len(message.Header) != 1 || message.Subject != "ignored" {
		t.Errorf("the team's message has become %+v", message)
	}
	q.Serve(nil)
	q.AwaitNothingPending()
	if served := q.Served(); len(served) != 1 || served[0] == "" {
		t.Errorf("served %q", served)
	}
}

func TestAFullQueueRefusesMoreAndDropsNone(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.MaxBytes = 64 << 10 })
	var produced []string
	for err := error(nil); err == nil; {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		document := fmt.Sprint(len(produced))
		if err = q.produce(ctx, document, make([]byte, 8<<10)); err == nil {
			produced = append(produced, document)
		} else if !strings.Contains(err.Error(), "maximum bytes exceeded") {
			t.Errorf("the error does not tell that the queue is full: %v", err)
		}
		cancel()
	}
	q.Serve(nil)
	q.AwaitServed(produced...)
	if len(produced) == 0 {
		t.Error("it took none")
	}
}

// An account's limit, or somebody's, is on the stream of those that were given up.
func TestWhatCannotBeGivenUpHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Backoff, o.MaxBytes = []time.Duration{}, 64<<10 })
	config := q.stream("documents-dead").Config
	if config.MaxBytes != -1 {
		t.Errorf("there is room for %d bytes of documents that were given up", config.MaxBytes)
	}
	config.MaxMsgs = 1
	if _, err := q.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	foreign := nats.NewMsg("documents.1") // there is no room for the header that tells the reason
	foreign.Data = make([]byte, q.js.Conn().MaxPayload())
	if err := q.js.Conn().PublishMsg(foreign); err != nil {
		t.Fatal(err)
	}
	q.SendAt(1, "poison 1", "poison 2", "poison 3")
	q.SendAt(9, "good")
	stop := q.Serve(func(_ context.Context, document string) error {
		if document == "good" {
			return nil
		}
		return errors.New("fails")
	})
	q.AwaitServed("good")
	stop()
	if dead, err := q.Dead(t.Context()); len(dead) != 1 || err != nil {
		t.Errorf("dead %+v, %v", dead, err)
	}
	if waiting := q.stream("documents").State.Msgs; waiting < 2 {
		t.Errorf("those that could not be given up are gone: %d are there", waiting)
	}
}

func TestADocumentThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	if err := q.produce(t.Context(), "large", make([]byte, 1<<20)); err == nil {
		t.Error("no error")
	}
	q.AwaitNothingPending()

	// What is as large as allowed can be given up.
	if err := q.produce(t.Context(), "less", make([]byte, 1<<20-2<<10)); err != nil {
		t.Fatal(err)
	}
	q.giveUp(errors.New(strings.Repeat("no ", 10_000)), "less")
}

// There are more than the thousand that a consumer waits for by default.
func TestDocumentsThatWaitForAnotherTryHoldUpNoOther(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Backoff, o.Workers = []time.Duration{time.Hour}, 8 })
	for i := range 1010 {
		q.SendAt(9, fmt.Sprint(i))
	}
	q.SendAt(9, "good")
	q.Serve(func(_ context.Context, document string) error {
		if document != "good" {
			return errors.New("fails")
		}
		return nil
	})
	q.AwaitServed("good")
}

func TestADocumentThatItsWorkersNeverAcknowledgeIsGivenUp(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Backoff = []time.Duration{time.Millisecond} })
	q.SendAt(1, "killer")
	for range 4 { // as often as two tries and as many losses
		if err := q.fetch(1).Nak(); err != nil { // as when AckWait is over
			t.Fatal(err)
		}
	}
	q.Serve(nil)
	q.AwaitDead("killer")
	q.AwaitNothingPending()
	q.AwaitServed()
}

func TestDocumentsThatWereGivenUpCanBePutBack(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Backoff = []time.Duration{} })
	for _, document := range []string{"one", "two"} {
		if err := q.produce(t.Context(), document, []byte(document)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time too
		q.giveUp(errors.New("fails"), "one", "two")
		q.retryAll()
		q.AwaitDead()
	}
	q.Process(func(_ context.Context, customer, document string, body []byte) error {
		if customer != "acme" || string(body) != document {
			t.Errorf("%q of %q has the body %q", document, customer, body)
		}
		return nil
	})
	q.AwaitServed("one", "two")
	q.AwaitNothingPending()
}

// Two operators retry the same letters, at the same time and again.
func TestALetterIsRetriedOnce(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Backoff = []time.Duration{} })
	q.Send("one")
	q.giveUp(errors.New("fails"), "one")
	letters, err := q.Dead(t.Context())
	if err != nil || len(letters) != 1 || letters[0].Customer != "acme" || letters[0].Reason != "fails" || letters[0].Tries != 1 || letters[0].At.IsZero() {
		t.Fatalf("dead %+v, %v", letters, err)
	}
	var operators sync.WaitGroup
	for range 5 {
		operators.Go(func() {
			if err := q.Retry(t.Context(), letters[0]); err != nil {
				t.Error(err)
			}
		})
	}
	operators.Wait()
	if waiting := q.stream("documents").State.Msgs; waiting != 1 {
		t.Errorf("the queue has it %d times", waiting)
	}
	q.Serve(nil)
	q.AwaitServed("one")
	if err := q.Retry(t.Context(), letters[0]); err != nil {
		t.Error(err)
	}
	q.AwaitNothingPending()
	if dead, err := q.Dead(t.Context()); err != nil || len(dead) > 0 {
		t.Errorf("dead %+v, %v", dead, err)
	}
}

// It has the level of its customer now, and all that its publisher gave it.
func TestARetriedDocumentHasItsHeadersAndANewLevel(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Backoff = []time.Duration{} })
	q.Store.SetLevel("one", 1)
	message := &nats.Msg{Data: []byte("body"), Header: nats.Header{"Format": {"pdf"}}}
	if _, err := q.Publish(t.Context(), "acme", "one", message); err != nil {
		t.Fatal(err)
	}
	q.giveUp(errors.New("fails"), "one")
	q.Store.SetLevel("one", 7)
	q.retryAll()
	again := q.fetch(7)
	if headers := again.Headers(); headers.Get("Format") != "pdf" || string(again.Data()) != "body" || headers.Get("Priority-Reason") != "" {
		t.Errorf("%q with %v", again.Data(), headers)
	}
}

func TestTheDeadCanBeReadWhileTheyArePutBack(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	for i := range 510 { // more than a consumer fetches at a time
		q.publishDead(fmt.Sprint(i))
	}
	dead, err := q.js.Stream(t.Context(), "documents-dead")
	if err != nil {
		t.Fatal(err)
	}
	purged := make(chan error, 1)
	go func() { purged <- dead.Purge(t.Context()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := q.Dead(ctx); err != nil {
		t.Error(err)
	}
	if err := <-purged; err != nil {
		t.Error(err)
	}
	if consumers := q.stream("documents-dead").State.Consumers; consumers != 0 {
		t.Errorf("%d consumers are left", consumers)
	}
}

// A worker dies after it has given a document up, and before it could say so.
func TestADocumentIsGivenUpOnce(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Backoff = []time.Duration{} })
	q.SendAt(1, "dies")
	message := q.fetch(1)
	fails := func(context.Context, jetstream.Msg) error { return errors.New("fails") }
	func() {
		defer func() { _ = recover() }()
		q.Handle(t.Context(), dies{message}, fails)
	}()
	q.Handle(t.Context(), message, fails)
	if dead, err := q.Dead(t.Context()); len(dead) != 1 || err != nil {
		t.Errorf("dead %+v, %v", dead, err)
	}
	if waiting := q.stream("documents").State.Msgs; waiting != 0 {
		t.Errorf("%d are left in the queue", waiting)
	}
}

// dies has the worker that acknowledges it die.
type dies struct{ jetstream.Msg }

func (dies) DoubleAck(context.Context) error { panic("dies") }

// Its sequence numbers begin again.
func TestAStreamThatWasMadeAgainGivesUpToo(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Backoff = []time.Duration{} })
	var dead []string
	for _, document := range []string{"one", "two"} {
		if err := q.js.DeleteStream(t.Context(), "documents"); err != nil {
			t.Fatal(err)
		}
		again := openAt(t, q.js.Conn().ConnectedUrl(), func(o *prioritynats.Options) { o.Backoff = []time.Duration{} })
		again.Send(document)
		dead = append(dead, document)
		again.giveUp(errors.New("fails"), dead...)
	}
}

func TestADocumentThatWasGivenUpIsNotTakenBackInSilence(t *testing.T) {
	t.Parallel()
	var log trial.Log
	q := open(t, func(o *prioritynats.Options) {
		o.Backoff, o.Logger = []time.Duration{}, slog.New(slog.NewTextHandler(&log, nil))
	})
	q.Send("invoice")
	q.giveUp(errors.New("fails"), "invoice")
	q.Send("invoice")
	log.Await(t, "served or given up before")
	q.AwaitNothingPending()
}

// It is worked on as any other, and given up; it just does not count.
func TestAMessageOfSomebodyElseIsServedToo(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Backoff = []time.Duration{} })
	q.Store.OnDone = func(document string, _ time.Duration) { t.Errorf("Done of %q", document) }
	if _, err := q.js.Publish(t.Context(), "documents.5", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	q.giveUp(errors.New("fails"), "")
	q.retryAll()
	if retried := q.fetch(5); string(retried.Data()) != "hello" {
		t.Errorf("%q", retried.Data())
	} else if err := retried.Nak(); err != nil {
		t.Error(err)
	}
	q.Serve(nil)
	q.AwaitServed("")
	trial.Await(t, "it is gone", func() bool { return q.stream("documents").State.Msgs == 0 })
}

// So it is at the last level too; and one to acknowledge.
func TestADocumentCostsARequestToFetch(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *prioritynats.Options) { o.Workers = 1 })
	var documents []string
	for i := range 300 {
		documents = append(documents, fmt.Sprint(i))
	}
	q.SendAt(9, documents...)
	before := q.js.Conn().Stats()
	began := time.Now()
	stop := q.Serve(nil)
	q.AwaitServed(documents...)
	stop()
	looks := 2 + int(time.Since(began)/time.Second)
	sent := int(q.js.Conn().Stats().OutMsgs - before.OutMsgs)
	t.Logf("%d requests for %d documents", sent, len(documents))
	if most := 2*len(documents) + 9*looks; sent > most {
		t.Errorf("%d requests, want at most %d", sent, most)
	}
}

// A team has a stream and consumers of its own, and a connection.
func TestATeamsOwnConsumerIsHandled(t *testing.T) {
	t.Parallel()
	js := connect(t, trial.Start(t, server.StartNATS).URL)
	for stream, subject := range map[string]string{"DOCS": "docs.*", "docs-dead": "docs-dead"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{subject}}); err != nil {
			t.Fatal(err)
		}
	}
	consumer, err := js.CreateConsumer(t.Context(), "DOCS", jetstream.ConsumerConfig{FilterSubject: "docs.*", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	options, store := quiet(), new(trial.Store)
	options.Name = "docs"
	q, err := prioritynats.New(js, store, options)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the ids are made by Publish
		if ack, err := q.Publish(t.Context(), "acme", "", &nats.Msg{}); err != nil || ack.Stream != "DOCS" {
			t.Fatalf("%+v, %v", ack, err)
		}
	}
	failed := make(map[string]int) // by document
	handled := make(chan string)
	consuming, err := consumer.Consume(func(message jetstream.Msg) {
		q.Handle(t.Context(), message, func(_ context.Context, message jetstream.Msg) error {
			customer, document := prioritynats.Identity(message.Headers())
			if failed[document]++; failed[document] == 1 {
				return errors.New("fails once")
			}
			handled <- customer
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if customer := <-handled; customer != "acme" {
			t.Errorf("a document of %q", customer)
		}
	}
	trial.Await(t, "nothing is pending", func() bool {
		now, err := store.Peek(t.Context(), "acme")
		return err == nil && now.Pending == 0
	})
	consuming.Drain()
	<-consuming.Closed()
	if len(failed) != 2 {
		t.Errorf("documents %v", failed)
	}
	if err := q.Work(t.Context(), nil); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("Work without consumers: %v", err)
	}
}

// A team keeps its stream, and leaves the consumers to Open.
func TestOpenLeavesATeamsStreamAsItIs(t *testing.T) {
	t.Parallel()
	url := trial.Start(t, server.StartNATS).URL
	own := jetstream.StreamConfig{Name: "DOCS", Subjects: []string{"documents.>", "others"}, MaxMsgs: 1000}
	if _, err := connect(t, url).CreateStream(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	q := openAt(t, url, func(o *prioritynats.Options) { o.Stream = "DOCS" })
	q.Send("one")
	q.Serve(nil)
	q.AwaitServed("one")
	if c := q.stream("DOCS").Config; c.MaxMsgs != 1000 || len(c.Subjects) != 2 || c.Retention != jetstream.LimitsPolicy {
		t.Errorf("%+v", c)
	}
}

func TestTheServerMayBeAwayAtStart(t *testing.T) {
	t.Parallel()
	s := trial.Start(t, server.StartNATS)
	s.Kill()
	back := make(chan error, 1)
	go func() {
		time.Sleep(300 * time.Millisecond) // Open meets nobody
		back <- s.Restart(t.Context())
	}()
	q := openAt(t, s.URL, nil)
	if err := <-back; err != nil {
		t.Fatal(err)
	}
	q.Send("one")
}

func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := trial.Start(t, server.StartNATS)
	s.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := prioritynats.Open(ctx, connect(t, s.URL), new(memory.Store), quiet()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// What no other try changes is said at once.
func TestAWrongOptionIsAnError(t *testing.T) {
	t.Parallel()
	js := connect(t, trial.Start(t, server.StartNATS).URL)
	for field, change := range map[string]func(*prioritynats.Options){
		"Workers":    func(o *prioritynats.Options) { o.Workers = -1 },
		"Limit":      func(o *prioritynats.Options) { o.Limit = -1 },
		"AckWait":    func(o *prioritynats.Options) { o.AckWait = -1 },
		"Backoff":    func(o *prioritynats.Options) { o.Backoff = []time.Duration{1, -1} },
		"Replicas":   func(o *prioritynats.Options) { o.Replicas = -1 },
		"MaxBytes":   func(o *prioritynats.Options) { o.MaxBytes = -1 },
		"Duplicates": func(o *prioritynats.Options) { o.Duplicates = -1 },
		"weight":     func(o *prioritynats.Options) { o.Weights = []int64{0} },
		// The server refuses these.
		"replicas":         func(o *prioritynats.Options) { o.Replicas = 3 },
		"stream name":      func(o *prioritynats.Options) { o.Name = "my.documents" },
		"stream not found": func(o *prioritynats.Options) { o.Stream = "DOCS" },
	} {
		options := quiet()
		change(options)
		_, err := prioritynats.Open(t.Context(), js, new(memory.Store), options)
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

// Documents that are in hand are finished, and Work ends although it cannot say so.
func TestWorkEndsWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := trial.Start(t, server.StartNATS)
	q := openAt(t, s.URL, func(o *prioritynats.Options) { o.AckWait = time.Second })
	q.Send("one")
	stop := q.Serve(func(context.Context, string) error { s.Kill(); return nil })
	q.AwaitServed("one")
	stop()
	q.AwaitServed("one")
	q.AwaitNothingPending()
}

// A refusal that the client does not know closes its connection, whatever
// MaxReconnects says.
func TestWorkEndsWithAConnectionThatIsClosedForGood(t *testing.T) {
	t.Parallel()
	url, refuse := refusing(t, trial.Start(t, server.StartNATS).URL)
	var log trial.Log
	q := openAt(t, url, func(o *prioritynats.Options) { o.Workers, o.Logger = 8, slog.New(slog.NewTextHandler(&log, nil)) })
	q.Send("one")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := q.Work(ctx, func(context.Context, jetstream.Msg) error { refuse(); return nil })
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

// Nothing is stored in memory, or dropped to make room.
func TestTheStreamsKeepWhatTheyHave(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	for _, stream := range []string{"documents", "documents-dead"} {
		c := q.stream(stream).Config
		if c.Storage != jetstream.FileStorage || c.Discard != jetstream.DiscardNew || c.MaxAge != 0 || c.MaxMsgs != -1 || c.MaxMsgsPerSubject != -1 {
			t.Errorf("%+v", c)
		}
	}
}

func quiet() *prioritynats.Options {
	return &prioritynats.Options{
		Limit: time.Minute, Backoff: []time.Duration{time.Millisecond, time.Millisecond},
		Logger: slog.New(slog.DiscardHandler), AckWait: 10 * time.Second,
	}
}

// opened is a queue on a server of its own.
type opened struct {
	*prioritynats.Queue
	*trial.Bench
	js jetstream.JetStream
	t  *testing.T
}

func open(t *testing.T, change func(*prioritynats.Options)) *opened {
	t.Helper()
	return openAt(t, trial.Start(t, server.StartNATS).URL, change)
}

func openAt(t *testing.T, url string, change func(*prioritynats.Options)) *opened {
	t.Helper()
	options, store := quiet(), new(trial.Store)
	if change != nil {
		change(options)
	}
	connection, err := nats.Connect(url, prioritynats.ConnectOptions(options.Logger)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	js, err := jetstream.New(connection)
	if err != nil {
		t.Fatal(err)
	}
	q, err := prioritynats.Open(t.Context(), js, store, options)
	if err != nil {
		t.Fatal(err)
	}
	return &opened{q, trial.NewBench(t, words{q}, store), js, t}
}

// words are a queue in the words of a Bench.
type words struct{ *prioritynats.Queue }

func (w words) Produce(ctx context.Context, customer, document string, body []byte) error {
	_, err := w.Publish(ctx, customer, document, &nats.Msg{Data: body})
	return err
}

func (w words) Work(ctx context.Context, process program.Process) error {
	return w.Queue.Work(ctx, func(ctx context.Context, message jetstream.Msg) error {
		customer, document := prioritynats.Identity(message.Headers())
		return process(ctx, customer, document, message.Data())
	})
}

func (w words) Dead(ctx context.Context) ([]string, error) {
	return program.IDs(w.Queue.Dead, func(l prioritynats.Letter) string { return l.Document })(ctx)
}

func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	connection, err := nats.Connect(url, nats.RetryOnFailedConnect(true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	js, err := jetstream.New(connection)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func (q *opened) produce(ctx context.Context, document string, body []byte) error {
	_, err := q.Publish(ctx, "acme", document, &nats.Msg{Data: body})
	return err
}

// retryAll puts all that were given up back.
func (q *opened) retryAll() {
	q.t.Helper()
	letters, err := q.Dead(q.t.Context())
	for _, letter := range letters {
		err = errors.Join(err, q.Retry(q.t.Context(), letter))
	}
	if err != nil {
		q.t.Error(err)
	}
}

// giveUp has documents fail until just these are given up and gone.
func (q *opened) giveUp(why error, documents ...string) {
	q.t.Helper()
	stop := q.Serve(func(context.Context, string) error { return why })
	q.AwaitDead(documents...)
	trial.Await(q.t, "they are gone", func() bool { return q.stream("documents").State.Msgs == 0 })
	stop()
}

// stream says what a stream is and has.
func (q *opened) stream(name string) *jetstream.StreamInfo {
	q.t.Helper()
	stream, err := q.js.Stream(q.t.Context(), name)
	if err != nil {
		q.t.Fatal(err)
	}
	return stream.CachedInfo()
}

// fetch takes a document of a level as a worker does.
func (q *opened) fetch(level int) jetstream.Msg {
	q.t.Helper()
	consumer, err := q.js.Consumer(q.t.Context(), "documents", fmt.Sprint("documents-", level))
	if err != nil {
		q.t.Fatal(err)
	}
	message, err := consumer.Next()
	if err != nil {
		q.t.Fatal(err)
	}
	return message
}

// publishDead puts a document where those that were given up are.
func (q *opened) publishDead(document string) {
	q.t.Helper()
	_, err := q.js.PublishMsg(q.t.Context(), &nats.Msg{
		Subject: "documents-dead", Header: nats.Header{"Priority-Customer": {"acme"}, "Priority-Document": {document}},
	})
	if err != nil {
		q.t.Error(err)
	}
}
