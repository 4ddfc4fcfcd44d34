package main

import (
	"fmt"
	"sync"
	"syscall"

	"github.com/docpriority/priority/internal/redistest"
)

// checkFallback has callers go on while the server stands still, and then while it is gone.
// None gets an error, each is told that the level is a fallback's, and a flood does not
// reach others. The server decides again when it is back, and has counted nothing while
// it was gone.
func checkFallback(w *world) {
	const callers, rounds = 16, 30
	s := w.site(durable...)
	d := w.open(s.between.addr, short, fields{"fallback": true})
	w.warmly(d)
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"stands still", func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) }},
		{"is gone", s.Kill, func() { s.Restart(); s.awaitWhole(w) }},
	} {
		// ask makes a call about one document, and returns the level.
		ask := func(do, customer string, i int) int64 {
			f := fields{"customer": []byte(customer), "n": 1}
			if do != "next" {
				f = fields{"customer": []byte(customer), "documents": documents(fmt.Sprint(outage.name, " ", customer, " ", i)), "took_ms": 0}
			}
			r, err := d.try(do, f)
			if err != nil || r.Error != nil {
				w.Errorf("while the server %s, %s of %s is %v %v", outage.name, do, customer, r, err)
				return 0
			}
			if do == "done" {
				return 0
			}
			if !r.Decisions[0].Degraded {
				w.Errorf("while the server %s, %s of %s is %v", outage.name, do, customer, r)
			}
			return r.Decisions[0].Level
		}
		before, _ := s.count(w, "again")
		outage.begin()
		var calling sync.WaitGroup
		for at := range callers {
			calling.Go(func() {
				small := fmt.Sprint("small ", at)
				for i := range rounds {
					if at%2 == 0 {
						ask("submit", "flood", at*rounds+i)
						continue
					}
					if level := ask("submit", small, i); level > 6 {
						w.Errorf("while the server %s, a customer with one document pending has level %d", outage.name, level)
					}
					ask("done", small, i)
					ask("next", "again", i)
				}
			})
		}
		calling.Wait()
		if level := ask("submit", "flood", -1); level < 7 {
			w.Errorf("while the server %s, a document after a flood of %d has level %d", outage.name, callers/2*rounds, level)
		}
		outage.end()
		if after, _ := s.count(w, "again"); outage.name == "is gone" && after != before {
			w.Errorf("while the server was gone the count went from %d to %d", before, after)
		}
		redistest.Await(w, "the server decides again", func() bool {
			r := d.ask("next", fields{"customer": []byte("again"), "n": 1})
			return r.Error == nil && !r.Decisions[0].Degraded
		})
		d.must("reset", fields{"customer": []byte("flood")})
	}
	d.end()
}
