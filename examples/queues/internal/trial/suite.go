// Package trial puts a queue's program on trial, on a real server: what it promises as
// the other queues do, with a fleet of worker processes and under faults (Run), and, with
// a Bench, what only this queue promises.
package trial

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/internal/redistest"
)

// promises are what docs/queues.md promises of every queue, by the names that it uses.
var promises = []struct {
	name string
	test func(*testing.T, *Subject)
}{
	{"AKilledBrokerLosesNoDocument", killedBroker},
	{"ACutConnectionLosesNoDocument", cutConnection},
	{"AnOutageEndsByItself", outage},
	{"AKilledWorkersDocumentsAreServedByOthers", killedWorker},
	{"ADocumentThatKillsItsWorkersIsGivenUp", killer},
	{"AShutdownRepeatsNoDocument", shutdownUnderLoad},
	{"ALongDocumentIsBegunOnce", longDocument},
	{"APoisonDocumentIsGivenUp", poison},
	{"TheBooksAreExactAfterRandomFaults", soak},

	{"DocumentsComeOutByLevel", order},
	{"AnUrgentDocumentOvertakes", overtaking},
	{"AFailedDocumentKeepsItsLevel", comeback},
	{"ByWeightTheLastLevelIsServedToo", byWeight},
	{"APanicIsAFailure", panics},
	{"ADocumentOverItsLimitHasFailed", overLimit},
	{"AStoreThatErrsLeavesNothingInTheQueue", storeThatErrs},
	{"NamesAndBodiesComeOutAsTheyWentIn", names},
	{"ATraceGoesFromSubmitToDone", traced},
	{"TheDemonstrationShowsEachCustomer", demonstration},
}

// Subject is a queue's program, and what a promise needs to know of the queue.
type Subject struct {
	Example func() *program.Example
	Flags   []string            // for all; NAME in them becomes the queue's name
	More    map[string][]string // for a promise, by its name

	// Start returns how to start the server for a promise, by its name, or that which most
	// of them share, "". nil: as the example does.
	Start func(promise string) func(context.Context) (*server.Server, error)

	Classes  priority.Level                             // how many levels the queue tells apart; 0: all
	Weighted bool                                       // without further flags, each level is served by its weight
	Long     time.Duration                              // longer than the queue waits for an acknowledgement
	Deaths   int                                        // a document is given up after as many workers have died of it; 0: the queue has a test of its own
	Text     bool                                       // bodies are UTF-8
	Refuses  func(name string) bool                     // names that the queue cannot carry
	Expire   func(tb testing.TB, url, queueName string) // makes what a killed worker had in hand so old that others get it at once; nil: it is soon
}

// Run tests each promise that the queue can make.
func Run(t *testing.T, s *Subject) {
	t.Helper()
	for _, promise := range promises {
		if s.Deaths == 0 && promise.name == "ADocumentThatKillsItsWorkersIsGivenUp" || !s.Weighted && promise.name == "ByWeightTheLastLevelIsServedToo" {
			continue
		}
		t.Run(promise.name, func(t *testing.T) {
			t.Parallel()
			promise.test(t, s)
		})
	}
}

// flags are the command line's for the promise that is tested.
func (s *Subject) flags(t *testing.T, queueName string) []string {
	flags := slices.Concat(s.Flags, s.More[promiseOf(t)])
	for i := range flags {
		flags[i] = strings.ReplaceAll(flags[i], "NAME", strings.ToLower(queueName))
	}
	return flags
}

// parse returns the example with the flags, and what they say of its queue.
func (s *Subject) parse(t *testing.T, queueName string) (*program.Example, *program.Config) {
	t.Helper()
	example := s.Example()
	config, err := program.Parse(example, s.flags(t, queueName)...)
	if err != nil {
		t.Fatal(err)
	}
	config.Name, config.Logger = queueName, slog.New(slog.DiscardHandler)
	return example, config
}

func promiseOf(t *testing.T) string { return t.Name()[strings.LastIndex(t.Name(), "/")+1:] }

// queueOf is the name of a promise's own queue.
func queueOf(t *testing.T) string {
	_, name, _ := strings.Cut(t.Name(), "/")
	return strings.ReplaceAll(name, "/", "_")
}

// ownServer starts a server for one promise.
func (s *Subject) ownServer(t *testing.T) *server.Server {
	t.Helper()
	start := s.Example().Start
	if s.Start != nil {
		start = s.Start(promiseOf(t))
	}
	return Start(t, start)
}

// Server returns the address of the server that most tests share.
func (s *Subject) Server(t *testing.T) (url string) {
	t.Helper()
	shared.once.Do(func() {
		start := s.Example().Start
		if s.Start != nil {
			start = s.Start("")
		}
		shared.server, shared.err = start(context.Background())
	})
	check(t, shared.err)
	return shared.server.URL
}

var shared struct {
	once   sync.Once
	server *server.Server
	err    error
}

// Start starts a server that is stopped with the test.
func Start(tb testing.TB, start func(context.Context) (*server.Server, error)) *server.Server {
	tb.Helper()
	s, err := start(tb.Context())
	check(tb, err)
	tb.Cleanup(s.Stop)
	return s
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if missing := (*server.MissingError)(nil); errors.As(err, &missing) {
		redistest.Skip(tb, err.Error())
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// isWorker, in the environment, has the test's program run as the example's.
const isWorker = "PRIORITY_EXAMPLE_WORKER"

// Main is an example's TestMain: it runs the tests or, in a worker's process, the
// example's main.
func Main(m *testing.M, main func()) {
	if os.Getenv(isWorker) != "" {
		main()
		os.Exit(0)
	}
	_ = flag.Set("test.parallel", "8") // they wait more than they compute; -parallel says otherwise
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	os.Exit(code)
}
