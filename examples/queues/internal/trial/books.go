package trial

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
)

// books are what all workers have told of documents: a file that each appends its
// lines to, so that a worker's last line is there when it is killed.
type books struct {
	tb   testing.TB
	file *os.File // what the workers write to
	own  *os.File // the same, for reading: a shared one would share the offset

	mutex   sync.Mutex
	rest    []byte                    // of a line that is not whole
	events  map[string]map[string]int // by document and what became of it
	moments []time.Time               // of each service
}

func openBooks(tb testing.TB) *books {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "books")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	own, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = file.Close(), own.Close() })
	return &books{tb: tb, file: file, own: own, events: make(map[string]map[string]int)}
}

// read returns how often each event was told of each document until now.
func (b *books) read() map[string]map[string]int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	buffer := make([]byte, 64<<10)
	for {
		n, _ := b.own.Read(buffer)
		if n == 0 {
			return b.events
		}
		b.rest = append(b.rest, buffer[:n]...)
		for {
			line, rest, whole := bytes.Cut(b.rest, []byte("\n"))
			if !whole {
				break
			}
			b.note(line)
			b.rest = rest
		}
	}
}

func (b *books) note(line []byte) {
	var event program.Event
	if err := json.Unmarshal(line, &event); err != nil {
		b.tb.Errorf("a worker's line %q: %v", line, err)
		return
	}
	if b.events[event.Document] == nil {
		b.events[event.Document] = make(map[string]int)
	}
	b.events[event.Document][event.What]++
	if event.What == program.Served {
		b.moments = append(b.moments, event.At)
	}
}

// served returns how many different documents were served.
func (b *books) served() int {
	served := 0
	for _, events := range b.read() {
		if events[program.Served] > 0 {
			served++
		}
	}
	return served
}

// servedSince returns how many services were told of after a moment.
func (b *books) servedSince(moment time.Time) int {
	b.read()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	served := 0
	for _, at := range b.moments {
		if at.After(moment) {
			served++
		}
	}
	return served
}

// count returns how often an event was told of a document.
func (b *books) count(document, event string) int {
	return b.read()[document][event]
}
