// Package browser drives a headless Chromium in tests, by the DevTools protocol on a
// pair of pipes.
package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/redistest"
)

// patience bounds how long anything in the browser may take.
const patience = time.Minute

// Browser is a running Chromium. It ends with the test.
type Browser struct {
	t       testing.TB
	to      io.Writer
	mu      sync.Mutex // guards all below
	last    int
	waiting map[int]chan reply
	tabs    map[string]*Tab // by their sessions
	ended   error
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	reply
}

type reply struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts a Chromium, or skips the test if there is no Chromium.
func Start(t testing.TB) *Browser {
	t.Helper()
	chromium := redistest.Find(t, "chromium", "chromium")
	folder, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // its processes may still write for a moment after it ended
		redistest.Await(t, "chromium leaves its folder", func() bool { return os.RemoveAll(folder) == nil })
	})
	theirIn, ourOut := pipe(t)
	ourIn, theirOut := pipe(t)
	command := exec.Command(chromium,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+folder, "--remote-debugging-pipe", "about:blank")
	command.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	redistest.StartProgram(t, command)
	_, _ = theirIn.Close(), theirOut.Close()
	b := &Browser{t: t, to: ourOut, waiting: make(map[int]chan reply), tabs: make(map[string]*Tab)}
	go b.read(ourIn)
	t.Cleanup(func() { _, _ = b.try("", "Browser.close", nil) })
	return b
}

func pipe(t testing.TB) (from, to *os.File) {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = from.Close(), to.Close() })
	return from, to
}

// read reads the browser's messages until it ends.
func (b *Browser) read(from io.Reader) {
	texts := bufio.NewReader(from)
	for {
		text, err := texts.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.ended = err
			for _, waiting := range b.waiting {
				close(waiting)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if waiting, ok := b.waiting[m.ID]; ok {
			waiting <- m.reply
			delete(b.waiting, m.ID)
		}
		tab := b.tabs[m.Session]
		b.mu.Unlock()
		if tab != nil && m.Method != "" {
			tab.heard(m.Method, m.Params)
		}
	}
}

// call calls a method, and fails the test if the browser does.
func (b *Browser) call(session, method string, params any) json.RawMessage {
	b.t.Helper()
	result, err := b.try(session, method, params)
	if err != nil {
		b.t.Fatalf("chromium: %s: %v", method, err)
	}
	return result
}

func (b *Browser) try(session, method string, params any) (json.RawMessage, error) {
	given, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if params == nil {
		given = nil
	}
	waiting := make(chan reply, 1)
	b.mu.Lock()
	if b.ended != nil {
		b.mu.Unlock()
		return nil, b.ended
	}
	b.last++
	text, err := json.Marshal(message{ID: b.last, Session: session, Method: method, Params: given})
	if err == nil {
		b.waiting[b.last] = waiting
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case got, ok := <-waiting:
		switch {
		case !ok:
			return nil, io.ErrUnexpectedEOF
		case got.Error != nil:
			return nil, fmt.Errorf("%s", got.Error.Message)
		}
		return got.Result, nil
	case <-time.After(patience):
		return nil, fmt.Errorf("no answer within %v", patience)
	}
}

// result reads a field of a result.
func result[T any](t testing.TB, text json.RawMessage, field string) (value T) {
	t.Helper()
	var fields map[string]json.RawMessage
	err := json.Unmarshal(text, &fields)
	if err == nil {
		err = json.Unmarshal(fields[field], &value)
	}
	if err != nil {
		t.Fatalf("chromium: %s of %.200s: %v", field, text, err)
	}
	return value
}
