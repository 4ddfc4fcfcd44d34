package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/trial"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(accountantsURL); url != "" {
		accountant(url)
	}
	_ = flag.Set("test.parallel", "6") // they wait more than they work
	trial.Main(m, main)
}

// A killed worker's documents wait for the Limit and 10 s more, and until River's
// rescuer comes by, which is every 30 s.
var short = []string{"-limit", "3s"}

func TestAKilledBrokerLosesNoDocument(t *testing.T) {
	t.Parallel()
	trial.KilledBroker(t, example(), short...)
}

func TestACutConnectionLosesNoDocument(t *testing.T) {
	t.Parallel()
	trial.CutConnection(t, example(), short...)
}

func TestAKilledWorkersDocumentsAreServedByOthers(t *testing.T) {
	t.Parallel()
	trial.KilledWorker(t, example(), "-limit", "9s") // three times what the document in hand takes
}

func TestAShutdownRepeatsNoDocument(t *testing.T) {
	t.Parallel()
	trial.ShutdownUnderLoad(t, example(), short...)
}

func TestAPoisonDocumentIsGivenUp(t *testing.T) {
	t.Parallel()
	trial.Poison(t, example(), short...)
}

// The rescuer comes by meanwhile.
func TestALongDocumentIsBegunOnce(t *testing.T) {
	t.Parallel()
	trial.LongDocument(t, example(), 32*time.Second, "-limit", "45s")
}

func TestTheBooksAreExactAfterRandomFaults(t *testing.T) {
	t.Parallel()
	trial.Soak(t, example(), short...)
}

func TestDocumentsComeOutByLevel(t *testing.T) {
	t.Parallel()
	trial.Order(t, example(), startPostgres(t), 4)
}

func TestAnUrgentDocumentOvertakes(t *testing.T) {
	t.Parallel()
	trial.Overtaking(t, example(), startPostgres(t))
}

func TestTheDemonstrationTellsOfAllCustomers(t *testing.T) {
	t.Parallel()
	startPostgres(t) // skips where there is none
	picture := filepath.Join(t.TempDir(), "river.svg")
	var out bytes.Buffer
	if err := program.Run(t.Context(), example(), []string{"-svg", picture}, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"archive         400", "bakery           30", "clinic           30", "dentist          30",
		"level 1 is priority 1, and level 9 is priority 4"} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("%q is missing in\n%s", row, out.String())
		}
	}
	drawn, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer drawn.Close()
	elements := xml.NewDecoder(drawn)
	for err == nil {
		_, err = elements.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestAWrongAddressIsSaid(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://nobody@127.0.0.1:1/none": "connection refused",
		"postgres://127.0.0.1:no-port/none":  "invalid port",
		"no address":                         "cannot parse",
		startPostgres(t) + "&user=nobody":    `role "nobody" does not exist`,
	} {
		err := program.Run(t.Context(), example(), []string{"work", "-url", url, "-redis", "redis://127.0.0.1:1"}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", url, err)
		}
	}
}
