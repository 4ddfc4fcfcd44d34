package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestCustomersAndIDsAreAnyBytes(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	strange := []string{"a/b", "%2F", " padded ", "two\r\nlines: 1", "\x00\xff", "é", "*.>", strings.Repeat("\n", 512), "same"}
	var want []string
	for _, customer := range strange {
		for _, document := range strange { // the same ids at each customer
			if err := d.Produce(t.Context(), customer, document, []byte(customer)); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%q of %q", document, customer))
		}
	}
	var served []string
	work(t, d, func(finish func(), customer, document string, body []byte) error {
		if string(body) != customer {
			t.Errorf("the body is %q, want %q", body, customer)
		}
		if served = append(served, fmt.Sprintf("%q of %q", document, customer)); len(served) == len(want) {
			finish()
		}
		return nil
	})
	slices.Sort(want)
	slices.Sort(served)
	if !slices.Equal(served, want) {
		t.Errorf("served\n%q\nwant\n%q", served, want)
	}
	for _, customer := range strange {
		nothingIsPending(t, d, customer)
	}
}

func TestADocumentThatIsProducedTwiceIsServedOnce(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	produce(t, d, "first", "first", "last")
	began := make(map[string]int)
	serve := func() {
		work(t, d, func(finish func(), _, document string, _ []byte) error {
			if began[document]++; document == "last" || document == "more" {
				finish()
			}
			return nil
		})
	}
	serve()
	produce(t, d, "first", "more") // the first was served: nobody else will say that it is done
	serve()
	if began["first"] != 1 {
		t.Errorf("begun %v, want each once", began)
	}
	nothingIsPending(t, d, "acme")
}

func TestAFullQueueRefusesMoreAndDropsNone(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.MaxBytes = 64 << 10 })
	produced := 0
	for ; ; produced++ {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		err := d.Produce(ctx, "acme", fmt.Sprint(produced), make([]byte, 8<<10))
		cancel()
		if err != nil {
			if !strings.Contains(err.Error(), "maximum bytes exceeded") {
				t.Errorf("the error does not tell that the queue is full: %v", err)
			}
			break
		}
	}
	var served []string
	work(t, d, func(finish func(), _, document string, _ []byte) error {
		if served = append(served, document); len(served) == produced {
			finish()
		}
		return nil
	})
	if produced == 0 || served[0] != "0" {
		t.Errorf("served %q of %d", served, produced)
	}
}

// An account's limit, or somebody's, is on the stream of those that were given up.
func TestWhatCannotBeGivenUpHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.Backoff, o.MaxBytes = nil, 64<<10 })
	config := d.dead.CachedInfo().Config
	if config.MaxBytes != -1 {
		t.Errorf("there is room for %d bytes of documents that were given up", config.MaxBytes)
	}
	config.MaxMsgs = 1
	if _, err := d.jetStream.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	foreign := nats.NewMsg("documents.1") // there is no room for the header that tells the reason
	foreign.Data = make([]byte, d.connection.MaxPayload())
	if err := d.connection.PublishMsg(foreign); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		publish(t, d, 1, fmt.Sprint("poison ", i))
	}
	publish(t, d, 9, "good")
	work(t, d, func(finish func(), _, document string, _ []byte) error {
		if document == "good" {
			finish()
			return nil
		}
		return errors.New("fails")
	})
	if dead, err := d.Dead(t.Context()); len(dead) != 1 || err != nil {
		t.Errorf("dead %q, %v", dead, err)
	}
	if waiting, err := d.waiting.Info(t.Context()); err != nil || waiting.State.Msgs < 2 {
		t.Errorf("those that could not be given up are gone: %+v, %v", waiting.State, err)
	}
}

func TestADocumentThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	if err := d.Produce(t.Context(), "acme", "large", make([]byte, 1<<20)); err == nil {
		t.Error("no error")
	}
	nothingIsPending(t, d, "acme")

	// What is as large as allowed can be given up.
	if err := d.Produce(t.Context(), "acme", "less", make([]byte, 1<<20-2<<10)); err != nil {
		t.Fatal(err)
	}
	workUntilDead(t, d, 1, func(context.Context, string, string, []byte) error {
		return errors.New(strings.Repeat("no ", 10_000))
	})
}

// There are more than the thousand that a consumer waits for by default.
func TestDocumentsThatWaitForAnotherTryHoldUpNoOther(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.Backoff, o.Workers = []time.Duration{time.Hour}, 8 })
	const failing = 1010
	for i := range failing {
		publish(t, d, 9, fmt.Sprint(i))
	}
	publish(t, d, 9, "good")
	work(t, d, func(finish func(), _, document string, _ []byte) error {
		if document != "good" {
			return errors.New("fails")
		}
		finish()
		return nil
	})
}

func TestADocumentThatItsWorkersNeverAcknowledgeIsGivenUp(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.Backoff = []time.Duration{time.Millisecond} })
	publish(t, d, 1, "killer")
	for range 4 { // as often as two tries and as many losses
		batch, err := d.consumers[0].Fetch(1)
		if err != nil {
			t.Fatal(err)
		}
		for message := range batch.Messages() {
			if err := message.Nak(); err != nil { // as when AckWait is over
				t.Fatal(err)
			}
		}
	}
	workUntilDead(t, d, 1, func(context.Context, string, string, []byte) error {
		t.Error("it was begun once more")
		return nil
	})
	nothingIsPending(t, d, "acme")
}

func TestAProcessThatPanicsHasFailed(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	produce(t, d, "panics")
	workUntilDead(t, d, 1, func(context.Context, string, string, []byte) error { panic("no") })
	nothingIsPending(t, d, "acme")
}

func TestADocumentOverItsLimitHasFailed(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.Limit = 10 * time.Millisecond })
	produce(t, d, "endless")
	workUntilDead(t, d, 1, func(ctx context.Context, _, _ string, _ []byte) error {
		<-ctx.Done()
		return ctx.Err()
	})
}

func TestAShutdownFinishesWhatIsInHand(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.AckWait = time.Second })
	produce(t, d, "one")
	ctx, end := context.WithCancel(t.Context())
	err := d.Work(ctx, func(ctx context.Context, _, _ string, _ []byte) error {
		end()
		time.Sleep(2 * d.options.AckWait) // it is kept meanwhile
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
	if waiting, err := d.waiting.Info(t.Context()); err != nil || waiting.State.Msgs != 0 {
		t.Errorf("it is still there: %+v, %v", waiting.State, err)
	}
	nothingIsPending(t, d, "acme")
}

func TestDocumentsThatWereGivenUpCanBePutBack(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.Backoff = nil })
	produce(t, d, "one", "two")
	for range 2 { // the second time too
		workUntilDead(t, d, 2, func(context.Context, string, string, []byte) error { return errors.New("fails") })
		if err := d.PutBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if dead, err := d.Dead(t.Context()); len(dead) > 0 || err != nil {
			t.Errorf("still dead: %q, %v", dead, err)
		}
	}
	served := 0
	work(t, d, func(finish func(), customer, document string, body []byte) error {
		if customer != "acme" || string(body) != document {
			t.Errorf("%q of %q has the body %q", document, customer, body)
		}
		if served++; served == 2 {
			finish()
		}
		return nil
	})
	nothingIsPending(t, d, "acme")
}

// What is given up while documents are put back stays where it is.
func TestPutBackEnds(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	const documents = 510 // more than a consumer fetches at a time
	for i := range documents {
		giveUp(t, d, fmt.Sprint(i))
	}
	d.store = &store{Store: d.store, submit: func() error { giveUp(t, d, "another"); return nil }}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.PutBack(ctx); err != nil {
		t.Error(err)
	}
	dead, err := d.Dead(t.Context())
	if err != nil || len(dead) != documents || slices.ContainsFunc(dead, func(id string) bool { return id != "another" }) {
		t.Errorf("dead %q, %v", dead, err)
	}
}

func TestTheDeadCanBeReadWhileTheyArePutBack(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	for i := range 510 {
		giveUp(t, d, fmt.Sprint(i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	read := 0
	err := d.eachDead(ctx, func(*jetstream.RawStreamMsg) error {
		if read++; read == 1 {
			return d.dead.Purge(ctx)
		}
		return nil
	})
	if err != nil || read == 0 {
		t.Errorf("read %d, %v", read, err)
	}
	if now, err := d.dead.Info(t.Context()); err != nil {
		t.Error(err)
	} else if now.State.Consumers != 0 {
		t.Errorf("%d consumers are left", now.State.Consumers)
	}
}

func TestADocumentWithoutALevelIsNotInTheQueue(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	away := errors.New("the store is away")
	d.store = &store{Store: d.store, submit: func() error { return away }}
	if err := d.Produce(t.Context(), "acme", "one", nil); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
	if waiting, err := d.waiting.Info(t.Context()); err != nil || waiting.State.Msgs != 0 {
		t.Errorf("%+v, %v", waiting.State, err)
	}
}

// A worker that dies after it has given a document up, and before it could say so.
func TestADocumentIsGivenUpOnce(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	produce(t, d, "dies")
	batch, err := d.consumers[0].Fetch(1)
	if err != nil {
		t.Fatal(err)
	}
	message := <-batch.Messages()
	for range 2 {
		if err := d.bury(t.Context(), message, errors.New("fails")); err != nil {
			t.Fatal(err)
		}
	}
	if dead, err := d.Dead(t.Context()); len(dead) != 1 || err != nil {
		t.Errorf("dead %q, %v", dead, err)
	}
}

// Its sequence numbers begin again.
func TestAStreamThatWasMadeAgainGivesUpToo(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.Backoff = nil })
	for i := range 2 {
		if err := d.jetStream.DeleteStream(t.Context(), "documents"); err != nil {
			t.Fatal(err)
		}
		if err := d.create(t.Context()); err != nil {
			t.Fatal(err)
		}
		produce(t, d, "poison")
		workUntilDead(t, d, i+1, func(context.Context, string, string, []byte) error { return errors.New("fails") })
	}
}

func TestADocumentThatWasGivenUpIsNotTakenBackInSilence(t *testing.T) {
	t.Parallel()
	var log trial.Log
	d := open(t, start(t), func(o *Options) { o.Backoff, o.Logger = nil, slog.New(slog.NewTextHandler(&log, nil)) })
	produce(t, d, "invoice")
	workUntilDead(t, d, 1, func(context.Context, string, string, []byte) error { return errors.New("fails") })
	produce(t, d, "invoice")
	if !strings.Contains(log.String(), "served or given up before") {
		t.Errorf("the log tells nothing of it:\n%s", log.String())
	}
	nothingIsPending(t, d, "acme")
}

func TestAMessageOfSomebodyElseIsGivenUp(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), nil)
	if _, err := d.jetStream.Publish(t.Context(), "documents.5", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	workUntilDead(t, d, 1, func(context.Context, string, string, []byte) error {
		t.Error("it was worked on")
		return nil
	})
	if err := d.PutBack(t.Context()); err == nil {
		t.Error("it was put back")
	}
}

func TestByWeightTheLastLevelIsServedToo(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.Weights, o.Workers = []int64{3, 1}, 1 })
	for i := range 4 {
		publish(t, d, 2, fmt.Sprintf("%d of level 2", i+1))
		publish(t, d, 1, fmt.Sprintf("%d of level 1", i+1))
	}
	var served []string
	work(t, d, func(finish func(), _, document string, _ []byte) error {
		if served = append(served, document); len(served) == 8 {
			finish()
		}
		return nil
	})
	if slices.Index(served, "1 of level 2") > slices.Index(served, "4 of level 1") {
		t.Errorf("served %q", served)
	}
}

// TestADocumentCostsARequestToFetch: at the last level too, and one to acknowledge.
func TestADocumentCostsARequestToFetch(t *testing.T) {
	t.Parallel()
	d := open(t, start(t), func(o *Options) { o.Workers = 1 })
	const documents = 300
	for i := range documents {
		publish(t, d, 9, fmt.Sprint(i))
	}
	before := d.connection.Stats()
	served := 0
	began := time.Now()
	work(t, d, func(finish func(), _, _ string, _ []byte) error {
		if served++; served == documents {
			finish()
		}
		return nil
	})
	looks := uint64(2 + time.Since(began)/look)
	sent := d.connection.Stats().OutMsgs - before.OutMsgs
	t.Logf("%d requests for %d documents", sent, documents)
	if most := 2*documents + 9*looks; sent > most {
		t.Errorf("%d requests, want at most %d", sent, most)
	}
}

// A worker whose machine stood still has a document that others may have, too.
func TestAWorkerThatMayHaveLostItsDocumentLeavesItToOthers(t *testing.T) {
	t.Parallel()
	store := new(memory.Store)
	d := &Documents{store: store, options: Options{
		Limit: time.Minute, Backoff: []time.Duration{time.Second}, AckWait: 30 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}}
	fails := func(context.Context, string, string, []byte) error {
		time.Sleep(3 * d.options.AckWait)
		return errors.New("fails")
	}
	lost := &delivery{heartbeat: errors.New("no connection")}
	d.serve(t.Context(), lost, fails)
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

// store does something, or fails, at each Submit.
type store struct {
	priority.Store
	submit func() error
}

func (s *store) Submit(ctx context.Context, customer, document string) (priority.Decision, error) {
	if err := s.submit(); err != nil {
		return priority.Decision{}, err
	}
	return s.Store.Submit(ctx, customer, document)
}

// giveUp puts a document where those that were given up are.
func giveUp(t *testing.T, d *Documents, document string) {
	t.Helper()
	_, err := d.jetStream.PublishMsg(t.Context(), &nats.Msg{
		Subject: deadName("documents"), Header: nats.Header{customerHeader: {"acme"}, documentHeader: {document}},
	})
	if err != nil {
		t.Error(err)
	}
}

// open opens a queue with options that a test changes.
func open(t *testing.T, url string, change func(*Options)) *Documents {
	t.Helper()
	options := quiet()
	if change != nil {
		change(options)
	}
	d, err := Open(t.Context(), url, new(memory.Store), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// produce produces documents of one customer, with their ids as their bodies.
func produce(t *testing.T, d *Documents, documents ...string) {
	t.Helper()
	for _, document := range documents {
		if err := d.Produce(t.Context(), "acme", document, []byte(document)); err != nil {
			t.Fatal(err)
		}
	}
}

// publish publishes a document at a level.
func publish(t *testing.T, d *Documents, level priority.Level, document string) {
	t.Helper()
	_, err := d.jetStream.PublishMsg(t.Context(), &nats.Msg{
		Subject: queue.NATSSubject("documents", level, 9),
		Header:  nats.Header{customerHeader: {"acme"}, documentHeader: {document}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// work works, one document at a time, until process has called finish.
func work(t *testing.T, d *Documents, process func(finish func(), customer, document string, body []byte) error) {
	t.Helper()
	ctx, finish := context.WithTimeout(t.Context(), time.Minute)
	defer finish()
	var mutex sync.Mutex
	err := d.Work(ctx, func(_ context.Context, customer, document string, body []byte) error {
		mutex.Lock()
		defer mutex.Unlock()
		return process(finish, customer, document, body)
	})
	if err != nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("work: %v, %v", err, ctx.Err())
	}
}

// workUntilDead works until as many documents were given up and are gone.
func workUntilDead(t *testing.T, d *Documents, documents int, process Process) {
	t.Helper()
	ctx, finish := context.WithTimeout(t.Context(), time.Minute)
	defer finish()
	worked := make(chan error, 1)
	go func() { worked <- d.Work(ctx, process) }()
	for {
		dead, err := d.Dead(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if waiting, err := d.waiting.Info(ctx); err != nil {
			t.Fatal(err)
		} else if len(dead) == documents && waiting.State.Msgs == 0 {
			break
		}
		_ = sleep(ctx, 10*time.Millisecond)
	}
	finish()
	if err := <-worked; err != nil {
		t.Error(err)
	}
}

func nothingIsPending(t *testing.T, d *Documents, customer string) {
	t.Helper()
	if now, err := d.store.Peek(t.Context(), customer); err != nil || now.Pending != 0 {
		t.Errorf("%d documents of %q are pending, %v", now.Pending, customer, err)
	}
}
