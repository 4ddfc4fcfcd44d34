package simulation

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// Division says how a workload is divided: policies are chosen on what was
// submitted from Begin until Split, and judged on what was submitted from Split
// until End.
type Division struct {
	Begin, Split, End time.Duration
	Light             int // how many light customers submitted in each half held back, at least
}

// enough says that a difference can be seen.
func (d Division) enough() bool { return d.Light >= 10 }

// divide holds the last third of a workload's time back, or says why it cannot.
// The first part is a workload of its own, as if nothing came after it. In the last
// one everything is served, so that counts and backlogs carry over, but only what
// was held back is measured.
func divide(w *Workload) (first, last *Workload, d Division, err error) {
	if err := checkCustomers(w); err != nil {
		return nil, nil, d, err
	}
	d.Begin, d.End = w.Documents[0].Submitted, w.Documents[len(w.Documents)-1].Submitted+1
	if d.End-d.Begin < 6 {
		return nil, nil, d, errors.New("all documents were submitted at one moment: no later part can be held back")
	}
	d.Split = d.Begin + (d.End-d.Begin)/3*2
	before, after := *w, *w
	before.From, before.To = d.Begin, d.Split
	before.Documents = w.Documents[:sort.Search(len(w.Documents), func(i int) bool { return w.Documents[i].Submitted >= d.Split })]
	after.From, after.To = d.Split, d.End
	if lightSenders(&before) == 0 {
		return nil, nil, d, errors.New("no light customer submitted a document in the first two thirds of the trace's time: no policy can be chosen")
	}
	if lightSenders(&after) == 0 {
		return nil, nil, d, errors.New("no light customer submitted a document in the last third of the trace's time: nothing can be judged")
	}
	parts := halves(&after)
	d.Light = min(lightSenders(parts[0]), lightSenders(parts[1]))
	return &before, &after, d, nil
}

// halves returns the workload twice, each with half of the time measured.
func halves(w *Workload) [2]*Workload {
	first, second := *w, *w
	first.To = w.From + (w.To-w.From)/2
	second.From = first.To
	return [2]*Workload{&first, &second}
}

// checkCustomers returns an error if there is nobody to compare.
func checkCustomers(w *Workload) error {
	sent := make(map[int32]int)
	light, fewest := 0, math.MaxInt
	for _, d := range w.Documents {
		sent[d.Customer]++
	}
	for customer, documents := range sent {
		fewest = min(fewest, documents)
		if w.light(customer) {
			light++
		}
	}
	switch {
	case len(sent) == 0:
		return errors.New("the trace has no documents")
	case light == 0:
		return fmt.Errorf("no customer of the trace is light: each has at least %d documents (see -light)", fewest)
	case len(sent) == 1:
		return errors.New("all documents of the trace are of one customer: nobody waits for another")
	}
	return nil
}

// lightSenders returns how many light customers submitted in the time measured.
func lightSenders(w *Workload) int {
	senders := make(map[int32]bool)
	for i := range w.measured() {
		if d := w.Documents[i]; w.light(d.Customer) {
			senders[d.Customer] = true
		}
	}
	return len(senders)
}

func (w *Workload) light(customer int32) bool { return w.Groups[w.GroupOf[customer]] == Light }

// meanService returns how long a measured document is served on average, in seconds.
func meanService(w *Workload) float64 {
	total, documents := 0.0, 0.0
	for i := range w.measured() {
		total += w.Documents[i].Service.Seconds()
		documents++
	}
	return total / documents
}
