package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/docpriority/priority/internal/redistest"
)

// checkFallback has sixteen callers go on while the server stands still, and then while it
// is away. Nobody is told of an error, a flood does not reach others, and when the server is
// back its books are right: what was done is done, and what the fallback decided alone is
// not counted.
func checkFallback(w *world) {
	const lanes, old, rounds = 16, 20, 40
	s := w.site(durable...)
	d := w.open(s.between.addr, short, fields{"fallback": true})
	w.warmly(d)
	s.flush(w)
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"stands still", func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) }},
		{"is away", s.Kill, func() { s.Restart(); s.awaitWhole(w) }},
	} {
		name := func(customer string, i int) [][]byte {
			return documents(fmt.Sprint(outage.name, " ", customer, " ", i))
		}
		submit := func(customer string, i int) (response, error) {
			return d.try("submit", fields{"customer": []byte(customer), "documents": name(customer, i)})
		}
		done := func(customer string, i int) (response, error) {
			return d.try("done", fields{"customer": []byte(customer), "documents": name(customer, i), "took_ms": 0})
		}
		for i := range old {
			d.must("submit", fields{"customer": []byte("flood"), "documents": name("flood", i)})
		}
		outage.begin()

		var degraded, floods atomic.Int64
		var lane sync.WaitGroup
		floods.Store(old)
		// told notes what a caller was told, and returns the level of a document.
		told := func(what, customer string, r response, err error) int64 {
			if err != nil || r.Error != nil {
				w.Errorf("while the server %s, %s of %s is %v %v", outage.name, what, customer, r, err)
				return 0
			}
			if len(r.Decisions) == 0 {
				return 0
			}
			if r.Decisions[0].Degraded {
				degraded.Add(1)
			}
			return r.Decisions[0].Level
		}
		for at := range lanes {
			lane.Go(func() {
				small := fmt.Sprint("small ", at)
				for i := range rounds {
					if at%2 == 0 {
						id := int(floods.Add(1)) - 1
						r, err := submit("flood", id)
						if level := told("submit", "flood", r, err); i == rounds-1 && level < 7 {
							w.Errorf("while the server %s, the last of %d documents of a flood has level %d", outage.name, id, level)
						}
						continue
					}
					r, err := submit(small, i)
					if level := told("submit", small, r, err); level > 6 {
						w.Errorf("while the server %s, a customer with one document pending has level %d", outage.name, level)
					}
					r, err = done(small, i)
					told("done", small, r, err)
					r, err = d.try("next", fields{"customer": []byte(small), "n": 1})
					told("next", small, r, err)
				}
			})
		}
		lane.Wait()
		for i := range old { // what was submitted before the outage is done within it
			r, err := done("flood", i)
			told("done", "flood", r, err)
		}
		if degraded.Load() < lanes*rounds {
			w.Errorf("while the server %s, %d decisions of %d are degraded", outage.name, degraded.Load(), 3*lanes*rounds/2)
		}
		if state := d.must("peek", fields{"customer": []byte("flood")}).State; !state.Degraded {
			w.Errorf("while the server %s, a peek is %s", outage.name, asJSON(state))
		}
		if w.Failed() {
			return
		}

		outage.end()
		redistest.Await(w, "the server decides again", func() bool {
			r := d.ask("next", fields{"customer": []byte("again"), "n": 1})
			return r.Error == nil && !r.Decisions[0].Degraded
		})
		pending := func(customer string) int64 {
			n, err := s.client.ZCard(context.Background(), keys(customer)[1]).Result()
			if err != nil {
				w.Fatal(err)
			}
			return n
		}
		for at := 1; at < lanes; at += 2 {
			small := fmt.Sprint("small ", at)
			redistest.Await(w, "what was done while the server was away is done", func() bool { return pending(small) == 0 })
			if count, _ := s.count(w, small); count < -2*rounds {
				w.Errorf("after the server %s, the count of %s is %d", outage.name, small, count)
			}
		}
		// Some documents of the flood may have reached the server, but hardly those that
		// came when the circuit was open.
		redistest.Await(w, "what was done while the server was away is done", func() bool { return pending("flood") <= 3*lanes })
		for i := range int(floods.Load()) {
			d.must("done", fields{"customer": []byte("flood"), "documents": name("flood", i), "took_ms": 0})
		}
		redistest.Await(w, "nothing is pending in the end", func() bool { return pending("flood") == 0 })
		d.must("reset", fields{"customer": []byte("flood")})
	}
	d.end()
}
