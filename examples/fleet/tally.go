package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tally is how often each count was given, by customer.
type tally struct {
	mu        sync.Mutex
	given     map[string]map[int64]int
	documents int
	twice     int
}

func newTally() *tally {
	return &tally{given: make(map[string]map[int64]int)}
}

// read adds the lines "customer count" of one worker.
func (t *tally) read(lines io.Reader) error {
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		customer, number, _ := strings.Cut(scanner.Text(), " ")
		count, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return fmt.Errorf("it printed %q, not a customer and a count", scanner.Text())
		}
		t.add(customer, count)
	}
	return scanner.Err()
}

func (t *tally) add(customer string, count int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.given[customer] == nil {
		t.given[customer] = make(map[int64]int)
	}
	t.given[customer][count]++
	if t.given[customer][count] > 1 {
		t.twice++
	}
	t.documents++
}

// show draws a line about the tally a few times a second if out is a terminal,
// until the function that it returns is called, which removes the line.
func (t *tally) show(out io.Writer, documents int) (stop func()) {
	file, ok := out.(*os.File)
	if !ok {
		return func() {}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				t.mu.Lock()
				fmt.Fprintf(out, "\r%d of %d documents counted; counts given twice: %d", t.documents, documents, t.twice)
				t.mu.Unlock()
			case <-quit:
				fmt.Fprint(out, "\r", strings.Repeat(" ", 78), "\r")
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// report prints a line for each customer, and returns whether every customer's
// counts are 0, -1, -2 and so on, each given once, for all the documents.
func (t *tally) report(out io.Writer, documents int) bool {
	fmt.Fprintln(out, "customer  documents  different counts   from      to  each given once")
	good := t.documents == documents
	for _, customer := range slices.Sorted(maps.Keys(t.given)) {
		given := t.given[customer]
		counts := slices.Sorted(maps.Keys(given))
		total := 0
		for _, times := range given {
			total += times
		}
		once := "yes"
		if fault := fault(given, total); fault != "" {
			once = fault
			good = false
		}
		fmt.Fprintf(out, "%-8s  %9d  %16d  %5d  %6d  %s\n",
			customer, total, len(counts), counts[len(counts)-1], counts[0], once)
	}
	switch {
	case good:
		fmt.Fprint(out, "\nNo count was given twice or skipped: the n documents of a customer were given\n"+
			"0, -1 … -(n-1), each once, whichever process counted them.\n")
	case t.documents != documents:
		fmt.Fprintf(out, "\nThe workers were to count %d documents and counted %d.\n", documents, t.documents)
	default:
		fmt.Fprintln(out, "\nCounts were given twice or skipped.")
	}
	return good
}

// fault names the first count, from 0 down, that was not given exactly once.
// Where there is none, the n documents leave no other count to be given.
func fault(given map[int64]int, documents int) string {
	for count := int64(0); count > -int64(documents); count-- {
		switch times := given[count]; times {
		case 0:
			return fmt.Sprintf("no: %d skipped", count)
		case 1:
		default:
			return fmt.Sprintf("no: %d given %d times", count, times)
		}
	}
	return ""
}
