package main

import (
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/docpriority/priority/internal/testing/redistest"
)

// A document that is done is not pending, whatever the server missed or got late.

// checkDones has the server miss Dones: it gets them later, and they do not end what was submitted since.
func checkDones(w *world) {
	s := w.site()
	d := w.open(s.between.addr, enough, fields{"fallback": true})
	w.warm(d)
	acme := fields{"customer": []byte("acme"), "documents": documents("missed", "submitted again"), "took_ms": 0}
	d.must("submit", acme)
	s.between.let("OOM command not allowed when used memory > 'maxmemory'.")
	d.must("done", acme)
	other := w.open(s.Addr, enough, nil)
	other.must("submit", fields{"customer": []byte("acme"), "documents": documents("submitted again")})
	s.between.let(pass)
	redistest.Await(w, "the server gets the Dones", func() bool { return !slices.Contains(s.pending(w, "acme"), "missed") })
	d.end()
	if held := s.pending(w, "acme"); !slices.Equal(held, []string{"submitted again"}) {
		w.Errorf("%q are pending", held)
	}
}

// checkLate has the server stand still with Submits in flight, whose documents are done meanwhile.
// It runs them after their calls have ended: that must not make the documents pending again.
func checkLate(w *world) {
	const calls, each = 9, 100
	s := w.siteAt("")
	d := w.open(s.Addr, short, fields{"fallback": true})
	w.warm(d)
	ask := func(do string) {
		var calling sync.WaitGroup
		for at := range calls {
			calling.Go(func() {
				var ids []string
				for n := range each {
					ids = append(ids, fmt.Sprint(at, " ", n))
				}
				r, err := d.try(do, fields{"customer": []byte("acme"), "documents": documents(ids...), "took_ms": 0})
				if err != nil || r.Error != nil || do == "submit" && !r.Decisions[0].Degraded {
					w.Errorf("while the server stands still, a %s is %v %v", do, r, err)
				}
			})
		}
		calling.Wait()
	}
	s.Signal(syscall.SIGSTOP)
	ask("submit")
	// What a process thinks of the server's clock is wrong by less than a call takes, and this is one.
	// After it, the tenth failure, no Done waits for the server.
	d.ask("peek", operations["peek"])
	ask("done")
	s.Signal(syscall.SIGCONT)
	redistest.Await(w, "the server decides again", func() bool {
		r := d.ask("next", operations["next"])
		return r.Error == nil && !r.Decisions[0].Degraded
	})
	d.end()
	if held := s.pending(w, "acme"); len(held) > 0 {
		w.Errorf("%d documents are pending that are done", len(held))
	}
}
