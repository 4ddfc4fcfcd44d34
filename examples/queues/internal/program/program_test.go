package program

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
)

// recorder is a queue that has one document, and remembers those it is given.
type recorder struct {
	Queue
	config   *Config
	produced []string
	closed   int
}

func (r *recorder) Produce(_ context.Context, customer, document string, _ []byte) error {
	r.produced = append(r.produced, customer+" "+document)
	return nil
}

func (r *recorder) Work(ctx context.Context, process Process) error {
	served := process(ctx, "acme", "invoice-1", []byte("1ms"))
	if failed := process(ctx, "acme", "invoice-2", []byte(Fails)); failed == nil {
		return errors.New("a document that fails was served")
	}
	return served
}

func (r *recorder) Close() error { r.closed++; return nil }

// noRedis is where none listens: a recorder asks for no level.
const noRedis = "redis://127.0.0.1:1"

func run(t *testing.T, args ...string) (*recorder, string, error) {
	t.Helper()
	queue := new(recorder)
	var out strings.Builder
	err := Run(t.Context(), &Example{Queue: "Recorder", Open: func(_ context.Context, config *Config) (Queue, error) {
		queue.config = config
		return queue, nil
	}}, args, &out)
	return queue, out.String(), err
}

func TestProducePutsEachDocumentIntoTheQueue(t *testing.T) {
	queue, _, err := run(t, "produce", "-url", "there", "-redis", noRedis, "-customer", "bakery", "first", "second")
	if want := []string{"bakery first", "bakery second"}; err != nil || !slices.Equal(queue.produced, want) || queue.closed != 1 {
		t.Errorf("produced %q, closed %d times, error %v", queue.produced, queue.closed, err)
	}
}

func TestWorkTellsALineOfEachEvent(t *testing.T) {
	queue, out, err := run(t, "work", "-url", "there", "-redis", noRedis, "-backoff", "1s,2s", "-workers", "7")
	if err != nil || queue.closed != 1 || len(queue.config.Backoff) != 2 || queue.config.Workers != 7 {
		t.Errorf("%+v, error %v", queue.config, err)
	}
	var told []string
	for line := range strings.Lines(out) {
		var event Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		told = append(told, event.Document+" "+event.What)
	}
	if want := []string{"invoice-1 began", "invoice-1 served", "invoice-2 began", "invoice-2 failed"}; !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

func TestAWrongCommandLineSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"serve", `unknown command "serve": want produce, work, or none; -h says more`},
		{"work", "work needs -url, the address of the queue's server"},
		{"work -url there", "work needs -redis, the address of the Redis with the fleet's counts"},
		{"work -url there -backoff 1s,soon", `invalid value "1s,soon" for flag -backoff: time: invalid duration "soon"`},
		{"work -url there -redis elsewhere", "redis: invalid URL scheme: "},
	} {
		if _, _, err := run(t, strings.Fields(c.line)...); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.line, err, c.want)
		}
	}
	if _, out, err := run(t, "-h"); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out, "recorder work -url") {
		t.Errorf("%v, %s", err, out)
	}
}
