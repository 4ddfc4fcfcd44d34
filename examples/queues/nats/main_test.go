package main

import (
	"flag"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m, main) }

// A trial's workers are lost soon.
const ackWait = 5 * time.Second

var soon = []string{"-ack-wait", ackWait.String()}

// hasty is the example with a short AckWait, for the trial's producer too, and with
// more flags.
func hasty(t *testing.T, more ...string) *program.Example {
	t.Helper()
	e := example()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	e.Flags(flags)
	if err := flags.Parse(append(soon, more...)); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAKilledBrokerLosesNoDocument(t *testing.T) {
	t.Parallel()
	trial.KilledBroker(t, hasty(t), soon...)
}
func TestACutConnectionLosesNoDocument(t *testing.T) {
	t.Parallel()
	trial.CutConnection(t, hasty(t), soon...)
}
func TestAKilledWorkersDocumentsAreServedByOthers(t *testing.T) {
	t.Parallel()
	trial.KilledWorker(t, hasty(t), soon...)
}
func TestAShutdownRepeatsNoDocument(t *testing.T) {
	t.Parallel()
	trial.ShutdownUnderLoad(t, hasty(t), soon...)
}
func TestAPoisonDocumentIsGivenUp(t *testing.T) { t.Parallel(); trial.Poison(t, hasty(t), soon...) }
func TestALongDocumentIsBegunOnce(t *testing.T) {
	t.Parallel()
	trial.LongDocument(t, hasty(t), 2*ackWait, soon...)
}
func TestTheBooksAreExactAfterRandomFaults(t *testing.T) {
	t.Parallel()
	trial.Soak(t, hasty(t), soon...)
}

func TestDocumentsComeOutByLevel(t *testing.T) {
	t.Parallel()
	trial.Order(t, hasty(t, "-strict"), start(t), 0)
}
func TestAnUrgentDocumentOvertakes(t *testing.T) {
	t.Parallel()
	trial.Overtaking(t, hasty(t, "-strict"), start(t))
}
