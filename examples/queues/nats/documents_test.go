package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/memory"

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

func TestAFullQueueRefusesMoreAndDropsNone(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.MaxBytes = 64 << 10 })
	var produced []string
	for err := error(nil); err == nil; {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		document := fmt.Sprint(len(produced))
		if err = q.Produce(ctx, "acme", document, make([]byte, 8<<10)); err == nil {
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
	q := open(t, func(o *Options) { o.Backoff, o.MaxBytes = nil, 64<<10 })
	config := q.dead.CachedInfo().Config
	if config.MaxBytes != -1 {
		t.Errorf("there is room for %d bytes of documents that were given up", config.MaxBytes)
	}
	config.MaxMsgs = 1
	if _, err := q.jetStream.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	foreign := nats.NewMsg("documents.1") // there is no room for the header that tells the reason
	foreign.Data = make([]byte, q.connection.MaxPayload())
	if err := q.connection.PublishMsg(foreign); err != nil {
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
		t.Errorf("dead %q, %v", dead, err)
	}
	if waiting := q.waitingNow(); waiting < 2 {
		t.Errorf("those that could not be given up are gone: %d are there", waiting)
	}
}

func TestADocumentThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	if err := q.Produce(t.Context(), "acme", "large", make([]byte, 1<<20)); err == nil {
		t.Error("no error")
	}
	q.AwaitNothingPending()

	// What is as large as allowed can be given up.
	if err := q.Produce(t.Context(), "acme", "less", make([]byte, 1<<20-2<<10)); err != nil {
		t.Fatal(err)
	}
	q.giveUp(errors.New(strings.Repeat("no ", 10_000)), "less")
}

// There are more than the thousand that a consumer waits for by default.
func TestDocumentsThatWaitForAnotherTryHoldUpNoOther(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Backoff, o.Workers = []time.Duration{time.Hour}, 8 })
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
	q := open(t, func(o *Options) { o.Backoff = []time.Duration{time.Millisecond} })
	q.SendAt(1, "killer")
	for range 4 { // as often as two tries and as many losses
		if err := q.fetch().Nak(); err != nil { // as when AckWait is over
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
	q := open(t, func(o *Options) { o.Backoff = nil })
	for _, document := range []string{"one", "two"} {
		if err := q.Produce(t.Context(), "acme", document, []byte(document)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time too
		q.giveUp(errors.New("fails"), "one", "two")
		if err := q.PutBack(t.Context()); err != nil {
			t.Fatal(err)
		}
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

// What is given up while documents are put back stays where it is.
func TestPutBackEnds(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	const documents = 510 // more than a consumer fetches at a time
	for i := range documents {
		q.publishDead(fmt.Sprint(i))
	}
	q.Store.OnSubmit = func(string, string) error { q.publishDead("another"); return nil }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := q.PutBack(ctx); err != nil {
		t.Error(err)
	}
	dead, err := q.Dead(t.Context())
	if err != nil || len(dead) != documents || slices.ContainsFunc(dead, func(id string) bool { return id != "another" }) {
		t.Errorf("dead %q, %v", dead, err)
	}
}

func TestTheDeadCanBeReadWhileTheyArePutBack(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	for i := range 510 {
		q.publishDead(fmt.Sprint(i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	read := 0
	err := q.eachDead(ctx, func(*jetstream.RawStreamMsg) error {
		if read++; read == 1 {
			return q.dead.Purge(ctx)
		}
		return nil
	})
	if err != nil || read == 0 {
		t.Errorf("read %d, %v", read, err)
	}
	if now, err := q.dead.Info(t.Context()); err != nil || now.State.Consumers != 0 {
		t.Errorf("consumers are left: %+v, %v", now, err)
	}
}

// A worker dies after it has given a document up, and before it could say so.
func TestADocumentIsGivenUpOnce(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	q.Send("dies")
	message := q.fetch()
	for range 2 {
		if err := q.bury(t.Context(), message, errors.New("fails")); err != nil {
			t.Fatal(err)
		}
	}
	if dead, err := q.Dead(t.Context()); len(dead) != 1 || err != nil {
		t.Errorf("dead %q, %v", dead, err)
	}
}

// Its sequence numbers begin again.
func TestAStreamThatWasMadeAgainGivesUpToo(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Backoff = nil })
	var dead []string
	for _, document := range []string{"one", "two"} {
		if err := q.jetStream.DeleteStream(t.Context(), "documents"); err != nil {
			t.Fatal(err)
		}
		if err := q.create(t.Context()); err != nil {
			t.Fatal(err)
		}
		q.Send(document)
		dead = append(dead, document)
		q.giveUp(errors.New("fails"), dead...)
	}
}

func TestADocumentThatWasGivenUpIsNotTakenBackInSilence(t *testing.T) {
	t.Parallel()
	var log trial.Log
	q := open(t, func(o *Options) { o.Backoff, o.Logger = nil, slog.New(slog.NewTextHandler(&log, nil)) })
	q.Send("invoice")
	q.giveUp(errors.New("fails"), "invoice")
	q.Send("invoice")
	log.Await(t, "served or given up before")
	q.AwaitNothingPending()
}

func TestAMessageOfSomebodyElseIsGivenUp(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	if _, err := q.jetStream.Publish(t.Context(), "documents.5", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	q.Serve(nil)
	q.AwaitDead("message 1")
	q.AwaitServed()
	if err := q.PutBack(t.Context()); err == nil {
		t.Error("it was put back")
	}
}

// So it is at the last level too; and one to acknowledge.
func TestADocumentCostsARequestToFetch(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Workers = 1 })
	var documents []string
	for i := range 300 {
		documents = append(documents, fmt.Sprint(i))
	}
	q.SendAt(9, documents...)
	before := q.connection.Stats()
	began := time.Now()
	stop := q.Serve(nil)
	q.AwaitServed(documents...)
	stop()
	looks := 2 + int(time.Since(began)/look)
	sent := int(q.connection.Stats().OutMsgs - before.OutMsgs)
	t.Logf("%d requests for %d documents", sent, len(documents))
	if most := 2*len(documents) + 9*looks; sent > most {
		t.Errorf("%d requests, want at most %d", sent, most)
	}
}

// A worker whose machine stood still has a document that others may have, too.
func TestAWorkerThatMayHaveLostItsDocumentLeavesItToOthers(t *testing.T) {
	t.Parallel()
	d := &Documents{store: new(memory.Store), options: Options{
		Limit: time.Minute, Backoff: []time.Duration{time.Second}, AckWait: 30 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}}
	lost := &delivery{heartbeat: errors.New("no connection")}
	d.serve(t.Context(), lost, func(context.Context, string, string, []byte) error {
		time.Sleep(3 * d.options.AckWait)
		return errors.New("fails")
	})
	if lost.naks != 0 {
		t.Error("it took the document from the one that has it now")
	}
	d.options.AckWait = 10 * time.Second // a busy machine keeps to that
	kept := &delivery{}
	d.serve(t.Context(), kept, func(context.Context, string, string, []byte) error { return errors.New("fails") })
	if kept.naks != 1 {
		t.Error("it did not give its document back")
	}
}

// delivery is a document's, without a server.
type delivery struct {
	jetstream.Msg
	heartbeat error
	naks      int
}

func (d *delivery) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{NumDelivered: 1}, nil
}
func (d *delivery) Headers() nats.Header {
	return nats.Header{customerHeader: {"acme"}, documentHeader: {"one"}}
}
func (d *delivery) Data() []byte                       { return nil }
func (d *delivery) InProgress() error                  { return d.heartbeat }
func (d *delivery) NakWithDelay(_ time.Duration) error { d.naks++; return nil }

func TestTheServerMayBeAwayAtStart(t *testing.T) {
	t.Parallel()
	s := trial.Start(t, server.StartNATS)
	s.Kill()
	back := make(chan error, 1)
	go func() {
		time.Sleep(pause) // Open meets nobody
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
	ctx, cancel := context.WithTimeout(t.Context(), pause)
	defer cancel()
	if _, err := Open(ctx, s.URL, new(memory.Store), quiet()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// What no other try changes is said at once.
func TestAWrongOptionIsAnError(t *testing.T) {
	t.Parallel()
	url := trial.Start(t, server.StartNATS).URL
	for field, change := range map[string]func(*Options){
		"Workers":    func(o *Options) { o.Workers = -1 },
		"Limit":      func(o *Options) { o.Limit = -1 },
		"AckWait":    func(o *Options) { o.AckWait = -1 },
		"Backoff":    func(o *Options) { o.Backoff = []time.Duration{1, -1} },
		"Replicas":   func(o *Options) { o.Replicas = -1 },
		"MaxBytes":   func(o *Options) { o.MaxBytes = -1 },
		"Duplicates": func(o *Options) { o.Duplicates = -1 },
		"weight":     func(o *Options) { o.Weights = []int64{0} },
		// The server refuses these.
		"replicas":    func(o *Options) { o.Replicas = 3 },
		"stream name": func(o *Options) { o.Name = "my.documents" },
		"queue : ":    func(o *Options) { o.Name = "" },
	} {
		options := quiet()
		change(options)
		_, err := Open(t.Context(), url, new(memory.Store), options)
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
	if _, err := Open(t.Context(), url, new(memory.Store), nil); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("no options: error %v", err)
	}
	if _, err := Open(t.Context(), "nats://:not a url", new(memory.Store), quiet()); err == nil {
		t.Error("no error of a broken address")
	}
}

// Documents that are in hand are finished, and Work ends although it cannot say so.
func TestWorkEndsWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := trial.Start(t, server.StartNATS)
	q := openAt(t, s.URL, func(o *Options) { o.AckWait = time.Second })
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
	q := openAt(t, url, func(o *Options) { o.Workers, o.Logger = 8, slog.New(slog.NewTextHandler(&log, nil)) })
	q.Send("one")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := q.Work(ctx, func(context.Context, string, string, []byte) error { refuse(); return nil })
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
	for _, stream := range []jetstream.Stream{q.waiting, q.dead} {
		c := stream.CachedInfo().Config
		if c.Storage != jetstream.FileStorage || c.Discard != jetstream.DiscardNew || c.MaxAge != 0 || c.MaxMsgs != -1 || c.MaxMsgsPerSubject != -1 {
			t.Errorf("%+v", c)
		}
	}
	if err := q.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name := range q.jetStream.StreamNames(t.Context()).Name() {
		t.Errorf("the stream %s is left", name)
	}
}

func quiet() *Options {
	return &Options{
		Name: "documents", Workers: 1, Limit: time.Minute, Backoff: []time.Duration{time.Millisecond, time.Millisecond},
		Logger: slog.New(slog.DiscardHandler), AckWait: 10 * time.Second,
	}
}

// opened is a queue on a server of its own.
type opened struct {
	*Documents
	*trial.Bench
	t *testing.T
}

func open(t *testing.T, change func(*Options)) *opened {
	t.Helper()
	return openAt(t, trial.Start(t, server.StartNATS).URL, change)
}

func openAt(t *testing.T, url string, change func(*Options)) *opened {
	t.Helper()
	options, store := quiet(), new(trial.Store)
	if change != nil {
		change(options)
	}
	d, err := Open(t.Context(), url, store, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return &opened{d, trial.NewBench(t, d, store), t}
}

// giveUp has documents fail until just these are given up and gone.
func (q *opened) giveUp(why error, documents ...string) {
	q.t.Helper()
	stop := q.Serve(func(context.Context, string) error { return why })
	q.AwaitDead(documents...)
	trial.Await(q.t, "they are gone", func() bool { return q.waitingNow() == 0 })
	stop()
}

// waitingNow is how many documents are in the queue.
func (q *opened) waitingNow() uint64 {
	q.t.Helper()
	now, err := q.waiting.Info(q.t.Context())
	if err != nil {
		q.t.Fatal(err)
	}
	return now.State.Msgs
}

// fetch takes a document of level 1 as a worker does.
func (q *opened) fetch() jetstream.Msg {
	q.t.Helper()
	batch, err := q.consumers[0].Fetch(1)
	if err != nil {
		q.t.Fatal(err)
	}
	return <-batch.Messages()
}

// publishDead puts a document where those that were given up are.
func (q *opened) publishDead(document string) {
	q.t.Helper()
	_, err := q.jetStream.PublishMsg(q.t.Context(), &nats.Msg{
		Subject: deadName("documents"), Header: nats.Header{customerHeader: {"acme"}, documentHeader: {document}},
	})
	if err != nil {
		q.t.Error(err)
	}
}
