package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/docpriority/priority/internal/redistest"
)

// checkFallback has callers go on while the server stands still, and then while it is
// gone. None gets an error, and a flood does not reach others. The server decides again
// when it is back.
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
		var degraded, floods atomic.Int64
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
			if len(r.Decisions) == 0 {
				return 0
			}
			if r.Decisions[0].Degraded {
				degraded.Add(1)
			}
			return r.Decisions[0].Level
		}
		outage.begin()
		var calling sync.WaitGroup
		for at := range callers {
			calling.Go(func() {
				small := fmt.Sprint("small ", at)
				for i := range rounds {
					if at%2 == 0 {
						if level := ask("submit", "flood", int(floods.Add(1))); i == rounds-1 && level < 7 {
							w.Errorf("while the server %s, the last of %d documents of a flood has level %d", outage.name, floods.Load(), level)
						}
						continue
					}
					if level := ask("submit", small, i); level > 6 {
						w.Errorf("while the server %s, a customer with one document pending has level %d", outage.name, level)
					}
					ask("done", small, i)
					ask("next", small, i)
				}
			})
		}
		calling.Wait()
		if degraded.Load() < callers*rounds {
			w.Errorf("while the server %s, %d decisions of %d are degraded", outage.name, degraded.Load(), 3*callers*rounds/2)
		}
		outage.end()
		redistest.Await(w, "the server decides again", func() bool {
			r := d.ask("next", fields{"customer": []byte("again"), "n": 1})
			return r.Error == nil && !r.Decisions[0].Degraded
		})
		d.must("reset", fields{"customer": []byte("flood")})
	}
	d.end()
}
