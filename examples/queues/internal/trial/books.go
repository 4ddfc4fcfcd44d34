package trial

import (
	"bufio"
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

	mutex  sync.Mutex
	reader *bufio.Reader // of the same by another file: a shared one would share the offset
	rest   []byte        // of a line that is not whole
	events []program.Event
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
	return &books{tb: tb, file: file, reader: bufio.NewReader(own)}
}

// read returns what was told until now.
func (b *books) read() []program.Event {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for {
		line, err := b.reader.ReadBytes('\n')
		b.rest = append(b.rest, line...)
		if err != nil {
			return b.events
		}
		var event program.Event
		if err := json.Unmarshal(b.rest, &event); err != nil {
			b.tb.Errorf("a worker's line %q: %v", b.rest, err)
		}
		b.events, b.rest = append(b.events, event), nil
	}
}

// served returns how often each document was served.
func (b *books) served() map[string]int {
	served := make(map[string]int)
	for _, event := range b.read() {
		if event.What == program.Served {
			served[event.Document]++
		}
	}
	return served
}

// servedSince returns how many services were told of after a moment.
func (b *books) servedSince(moment time.Time) int {
	served := 0
	for _, event := range b.read() {
		if event.What == program.Served && event.At.After(moment) {
			served++
		}
	}
	return served
}

// count returns how often an event was told of a document.
func (b *books) count(document, what string) int {
	count := 0
	for _, event := range b.read() {
		if event.Document == document && event.What == what {
			count++
		}
	}
	return count
}
