package conformance_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// The protocol; README.md describes it.
type (
	fields map[string]any // of a request; []byte becomes base64

	response struct {
		ID        int64      `json:"id"`
		Decisions []decision `json:"decisions,omitempty"`
		Ended     []ended    `json:"ended,omitempty"`
		State     *state     `json:"state,omitempty"`
		Error     *failure   `json:"error,omitempty"`
		Key       []byte     `json:"key,omitempty"`
		Script    string     `json:"script,omitempty"`
		SHA1      string     `json:"sha1,omitempty"`
	}
	decision struct {
		Level     int64   `json:"level"`
		RuleLevel int64   `json:"rule_level"`
		Count     int64   `json:"count,omitempty"`       // of next
		ResetIn   int64   `json:"reset_in_ms,omitempty"` // of next
		Load      float64 `json:"load,omitempty"`        // of submit
		Pending   int64   `json:"pending,omitempty"`     // of submit

		Degraded bool `json:"degraded,omitempty"` // a fallback decided
	}
	ended struct {
		Document []byte `json:"document"`
		Latency  int64  `json:"latency_ms,omitempty"`
		Level    int64  `json:"level"`
	}
	state struct {
		Rule         string  `json:"rule"`
		Level        int64   `json:"level"`
		NextLevel    int64   `json:"next_level"`
		Count        int64   `json:"count"`
		ResetIn      int64   `json:"reset_in_ms"`
		Load         float64 `json:"load"`
		Recent       float64 `json:"recent"`
		Cost         float64 `json:"cost"`
		Pending      int64   `json:"pending"`
		PendingFlood int64   `json:"pending_flood"`
		Oldest       int64   `json:"oldest_ms"`
		Latency      int64   `json:"latency_ms"`
		Lease        int64   `json:"lease_ms"`
		RuleLevel    int64   `json:"rule_level"`
		Earliest     int64   `json:"earliest,omitempty"` // this and the next ones with an override
		Latest       int64   `json:"latest,omitempty"`
		EndsIn       int64   `json:"override_ends_in_ms,omitempty"`
		Scheduled    int64   `json:"scheduled,omitempty"`
		AccountLoad  float64 `json:"account_load,omitempty"`
		AccountFlood int64   `json:"account_flood,omitempty"`
		Degraded     bool    `json:"degraded,omitempty"`
	}
	failure struct {
		Class   string `json:"class"`
		Message string `json:"message"`
	}
)

// The classes of errors, and answered for none.
const (
	answered       = "answered"
	invalid        = "invalid"
	notCounted     = "not_counted"
	outcomeUnknown = "outcome_unknown"
	corrupt        = "corrupt"
	unsupported    = "unsupported" // of open
)

// class returns the class of the response's error, or answered.
func (r response) class() string {
	if r.Error == nil {
		return answered
	}
	return r.Error.Class
}

// err is the module's error for the class of the response's.
func (r response) err() error {
	switch r.class() {
	case answered:
		return nil
	case notCounted:
		return fmt.Errorf("%w: %s", priority.ErrNotCounted, r.Error.Message)
	case outcomeUnknown:
		return fmt.Errorf("%w: %s", priority.ErrOutcomeUnknown, r.Error.Message)
	}
	return fmt.Errorf("%s: %s", r.Error.Class, r.Error.Message)
}

func (r response) String() string {
	text, _ := json.Marshal(r)
	return longName.ReplaceAllString(string(text), "$1…")
}

// longName is what a reader need not see all of: a name of 512 bytes, or a key with one.
var longName = regexp.MustCompile(`([^\s"]{40})[^\s"]{60,}`)

// driver is a process that answers requests.
type driver struct {
	tb      testing.TB
	process *exec.Cmd
	input   io.WriteCloser
	wait    func() error  // until the process has ended
	gone    chan struct{} // it has ended, or said what is no answer

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan response
	why     error // it is gone
}

// start returns a driver: one that a check has left, because most of a check's time is a process's
// start, or a new one, which ends with the test of the port at the latest.
func (w *world) start() *driver {
	w.Helper()
	p := w.port
	p.mu.Lock()
	defer p.mu.Unlock()
	var d *driver
	if n := len(p.idle); n > 0 {
		d, p.idle = p.idle[n-1], p.idle[:n-1]
	} else {
		d = startNew(p)
	}
	d.tb = w
	w.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		select {
		case <-d.gone:
		default:
			if !w.Failed() {
				p.idle = append(p.idle, d)
			}
		}
	})
	return d
}

func startNew(p *port) *driver {
	p.tb.Helper()
	d := &driver{
		process: exec.Command(p.command[0], p.command[1:]...), gone: make(chan struct{}), waiting: make(map[int64]chan response),
	}
	d.process.Dir, d.process.Env, d.process.Stderr = p.dir, p.env, p.tb.Output()
	output, err := d.process.StdoutPipe()
	if err == nil {
		d.input, err = d.process.StdinPipe()
	}
	if err != nil {
		p.tb.Fatal(err)
	}
	d.wait = redistest.StartProgram(p.tb, d.process)
	go d.listen(output)
	return d
}

// listen hands each answer to whom it is for.
func (d *driver) listen(output io.Reader) {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			why := errEnded
			if err := d.wait(); err != nil {
				why = fmt.Errorf("%w: %w", errEnded, err)
			}
			d.leave(why)
			return
		}
		var r response
		if err := json.Unmarshal(line, &r); err != nil {
			d.leave(fmt.Errorf("the driver says %.200q, which is no answer: %w", line, err))
			return
		}
		d.mu.Lock()
		asked := d.waiting[r.ID]
		delete(d.waiting, r.ID)
		d.mu.Unlock()
		if asked == nil {
			d.leave(fmt.Errorf("the driver answers %.200q, which nobody waits for", bytes.TrimSpace(line)))
			return
		}
		asked <- r
	}
}

func (d *driver) leave(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why == nil {
		d.why = why
		close(d.gone)
	}
}

// errEnded is why a driver is gone that has ended with status 0.
var errEnded = errors.New("the driver has ended")

// try makes one request and awaits its answer, which has as many decisions as it has to
// have, or an error. It fails only by the driver's fault.
func (d *driver) try(do string, f fields) (response, error) {
	mine := make(chan response, 1)
	d.mu.Lock()
	d.last++
	request := fields{"id": d.last, "do": do}
	maps.Copy(request, f)
	line, err := json.Marshal(request)
	if err != nil {
		panic(err)
	}
	d.waiting[d.last] = mine
	_, err = d.input.Write(append(line, '\n'))
	d.mu.Unlock()
	if err != nil {
		return response{}, fmt.Errorf("the driver takes no request: %w", err)
	}
	select {
	case r := <-mine:
		if want := decisionsOf(do, f); r.Error == nil && len(r.Decisions) != want {
			return r, fmt.Errorf("the answer to %.200s has %d decisions, want %d", line, len(r.Decisions), want)
		}
		if r.Error == nil && (r.State != nil) != (do == "peek") {
			return r, fmt.Errorf("the answer to %.200s has no state, or one that nobody asked for", line)
		}
		return r, nil
	case <-d.gone:
		return response{}, d.why
	case <-time.After(patience):
		return response{}, fmt.Errorf("the driver has not answered %.200s within %v", line, patience)
	}
}

// decisionsOf returns how many decisions an answer to a request has.
func decisionsOf(do string, f fields) int {
	switch do {
	case "next":
		return f["n"].(int)
	case "submit":
		return len(f["documents"].([][]byte))
	}
	return 0
}

// ask makes one request, and fails the check where there is no answer.
func (d *driver) ask(do string, f fields) response {
	d.tb.Helper()
	r, err := d.try(do, f)
	if err != nil {
		d.tb.Fatal(err)
	}
	return r
}

// must makes one request that has to succeed.
func (d *driver) must(do string, f fields) response {
	d.tb.Helper()
	r := d.ask(do, f)
	if r.Error != nil {
		d.tb.Fatalf("%s %s is %v", do, shown(f), r)
	}
	return r
}

// next counts one document, which has to succeed.
func (d *driver) next(customer string) decision {
	d.tb.Helper()
	return d.must("next", fields{"customer": []byte(customer), "n": 1}).Decisions[0]
}

// end ends the driver's input and waits until it has ended with status 0.
func (d *driver) end() {
	d.tb.Helper()
	_ = d.input.Close()
	select {
	case <-d.gone:
		if d.why != errEnded {
			d.tb.Fatalf("at the end of its input: %v", d.why)
		}
	case <-time.After(patience):
		d.tb.Fatalf("the driver has not ended within %v of the end of its input", patience)
	}
}

// shown is a request for a reader.
func shown(f fields) string {
	readable := make(fields)
	for name, value := range f {
		switch v := value.(type) {
		case []byte:
			value = fmt.Sprintf("%.40q", v)
		case [][]byte:
			value = fmt.Sprintf("%.40q", v)
		}
		readable[name] = value
	}
	text, _ := json.Marshal(readable)
	return string(text)
}

// documents is a field of a request.
func documents(ids ...string) [][]byte {
	list := make([][]byte, len(ids))
	for i, id := range ids {
		list[i] = []byte(id)
	}
	return list
}
