package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/trial"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they compute; -parallel says otherwise
	trial.Main(m, main)
}

func TestAKilledBrokerLosesNoDocument(t *testing.T) {
	t.Parallel()
	trial.KilledBroker(t, example())
}

func TestACutConnectionLosesNoDocument(t *testing.T) {
	t.Parallel()
	trial.CutConnection(t, example())
}

// It takes a good minute: asynq has a lease of 30 s, waits for 30 s more, and looks
// once a minute.
func TestAKilledWorkersDocumentsAreServedByOthers(t *testing.T) {
	t.Parallel()
	trial.KilledWorker(t, example())
}

func TestAShutdownRepeatsNoDocument(t *testing.T) {
	t.Parallel()
	trial.ShutdownUnderLoad(t, example())
}

// asynq's own time for it is 8 s.
func TestALongDocumentInHandAtShutdownIsServedOnce(t *testing.T) {
	t.Parallel()
	trial.ShutdownInLongDocument(t, example(), 10*time.Second)
}

func TestAPoisonDocumentIsGivenUp(t *testing.T) {
	t.Parallel()
	trial.Poison(t, example())
}

// asynq's lease is 30 s.
func TestALongDocumentIsBegunOnce(t *testing.T) {
	t.Parallel()
	trial.LongDocument(t, example(), 35*time.Second)
}

func TestDocumentsComeOutByLevel(t *testing.T) {
	t.Parallel()
	trial.Order(t, strictly(t), startRedis(t).URL, 0)
}

func TestAnUrgentDocumentOvertakes(t *testing.T) {
	t.Parallel()
	trial.Overtaking(t, strictly(t), startRedis(t).URL)
}

func TestTheBooksAreExactAfterRandomFaults(t *testing.T) {
	t.Parallel()
	trial.Soak(t, example())
}

func TestTheDemonstrationShowsAllCustomers(t *testing.T) {
	t.Parallel()
	picture := filepath.Join(t.TempDir(), "picture.svg")
	var out strings.Builder
	if err := program.Run(t.Context(), example(), []string{"-url", startRedis(t).URL, "-svg", picture}, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"bakery +30 ", "clinic +30 ", "dentist +30 ", "archive +400 "} {
		if !regexp.MustCompile("(?m)^" + row).MatchString(out.String()) {
			t.Errorf("no row %q in\n%s", row, out.String())
		}
	}
	file, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for tokens := xml.NewDecoder(file); ; {
		if _, err := tokens.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// strictly returns the example with -strict.
func strictly(t *testing.T) *program.Example {
	t.Helper()
	strict := example()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	strict.Flags(flags)
	if err := flags.Parse([]string{"-strict", "-check", "20ms"}); err != nil {
		t.Fatal(err)
	}
	return strict
}
