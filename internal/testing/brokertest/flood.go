package brokertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
)

const (
	floodWorkers = 4
	floodWork    = 10 * time.Millisecond // for a document
)

// arrival is a document of a flood, and when it is sent.
type arrival struct {
	customer, document string
	at                 time.Duration
}

// served is when a document was in its queue, and when a worker began with it.
type served struct{ queued, begun time.Time }

// Serve sends documents to a queue and works on them, with levels of Submit by the policy.
type Serve func(b *testing.B, policy priority.Policy, all []arrival) map[string]served

// Flood measures how long ten small customers wait beside two floods, on a queue set up as
// documented, and first come, first served.
func Flood(b *testing.B, serve Serve) {
	for b.Loop() {
		all := arrivals("level")
		live := smallWaits(b, all, serve(b, priority.Policy{}, all))
		all = arrivals("first")
		first := smallWaits(b, all, serve(b, priority.Policy{Loads: []float64{}}, all)) // level 1 for all
		b.ReportMetric(milliseconds(live, 50), "p50-ms")
		b.ReportMetric(milliseconds(live, 99), "p99-ms")
		b.ReportMetric(milliseconds(first, 99), "first-come-p99-ms")
		b.ReportMetric(0, "ns/op")
	}
}

// arrivals are two floods of 900 documents, and 20 from each of ten small customers over
// the five seconds that the workers need for all.
func arrivals(run string) (all []arrival) {
	for number := range 900 {
		for _, customer := range []string{"flood-1", "flood-2"} {
			all = append(all, arrival{customer, fmt.Sprint(run, "-", customer, "-", number), 0})
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for number := range 200 {
		customer := fmt.Sprint("small-", number%10)
		at := (time.Duration(number*25) + time.Duration(random.IntN(25))) * time.Millisecond
		all = append(all, arrival{customer, fmt.Sprint(run, "-", customer, "-", number), at})
	}
	return all
}

// smallWaits returns how long the small customers' documents were in the queue, ascending.
func smallWaits(b *testing.B, all []arrival, times map[string]served) (waits []time.Duration) {
	b.Helper()
	for _, a := range all {
		t, ok := times[a.document]
		if !ok {
			b.Fatalf("%s is not served", a.document)
		}
		if strings.HasPrefix(a.customer, "small") {
			waits = append(waits, max(0, t.begun.Sub(t.queued)))
		}
	}
	slices.Sort(waits)
	return waits
}

// milliseconds is a percentile.
func milliseconds(waits []time.Duration, percent int) float64 {
	return float64(waits[len(waits)*percent/100].Microseconds()) / 1000
}

// Flood measures a flood on the module's queue.
func (s *Subject) Flood(b *testing.B) {
	_, url := s.Start(b)
	Flood(b, func(b *testing.B, policy priority.Policy, all []arrival) map[string]served {
		return s.serve(b, url, policy, all)
	})
}

// serve serves a flood with two queues of two workers each.
func (s *Subject) serve(b *testing.B, url string, policy priority.Policy, all []arrival) map[string]served {
	b.Helper()
	store, err := priority.NewRedisStore(redistest.Start(b).Client(), &priority.RedisOptions{Timeout: 10 * time.Second, Policy: policy})
	if err != nil {
		b.Fatal(err)
	}
	var mutex sync.Mutex
	times := make(map[string]served)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var left sync.WaitGroup // to be served
	left.Add(len(all))
	handle := func(_ context.Context, document string) error {
		now := time.Now()
		mutex.Lock()
		t := times[document]
		if t.begun.IsZero() {
			defer left.Done()
			t.begun = now
		}
		times[document] = t
		mutex.Unlock()
		time.Sleep(floodWork)
		return nil
	}
	var working sync.WaitGroup
	for range floodWorkers / 2 {
		queue, err := s.Open(ctx, url, store)
		if err != nil {
			b.Fatal(err)
		}
		working.Go(func() {
			defer queue.Close()
			if err := queue.Work(ctx, handle); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	customers := make(map[string][]arrival)
	for _, a := range all {
		customers[a.customer] = append(customers[a.customer], a)
	}
	begin := time.Now()
	var sending sync.WaitGroup
	for customer, documents := range customers {
		queue, err := s.Open(ctx, url, store)
		if err != nil {
			b.Fatal(err)
		}
		sending.Go(func() {
			defer queue.Close()
			for _, a := range documents {
				time.Sleep(time.Until(begin.Add(a.at)))
				if err := queue.Publish(ctx, customer, a.document); err != nil {
					b.Error(err)
				}
				now := time.Now()
				mutex.Lock()
				times[a.document] = served{now, times[a.document].begun}
				mutex.Unlock()
			}
		})
	}
	sending.Wait()
	left.Wait()
	stop()
	working.Wait()
	return times
}

// Script serves a flood by a program in another language, which gets the address of a Redis.
// Its input is {"loads": …, "arrivals": [[customer, document, milliseconds], …]}. It prints
// "queued" or "begun", the document and the time in milliseconds, a line each.
func Script(command func(redis string) *exec.Cmd) Serve {
	return func(b *testing.B, policy priority.Policy, all []arrival) map[string]served {
		return byScript(b, policy, all, command("redis://"+redistest.Start(b).Addr))
	}
}

func byScript(b *testing.B, policy priority.Policy, all []arrival, command *exec.Cmd) map[string]served {
	b.Helper()
	arrivals := make([][3]any, len(all))
	for i, a := range all {
		arrivals[i] = [3]any{a.customer, a.document, a.at.Milliseconds()}
	}
	input, err := json.Marshal(map[string]any{"loads": policy.Loads, "arrivals": arrivals})
	if err != nil {
		b.Fatal(err)
	}
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, writer, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer output.Close()
	command.Stdout = writer
	redistest.StartProgram(b, command)
	_ = writer.Close()
	defer redistest.KillProgram(command)
	times, begun, queued := make(map[string]served), 0, 0
	for lines := bufio.NewScanner(output); begun < len(all) || queued < len(all); {
		if !lines.Scan() {
			b.Fatalf("%d of %d documents were begun: %v", begun, len(all), lines.Err())
		}
		var what, document string
		var at float64
		if _, err := fmt.Sscan(lines.Text(), &what, &document, &at); err != nil {
			b.Fatalf("%q: %v", lines.Text(), err)
		}
		t, when := times[document], time.UnixMicro(int64(at*1000))
		switch what {
		case "queued":
			t.queued = when
			queued++
		case "begun":
			t.begun = when
			begun++
		}
		times[document] = t
	}
	return times
}
