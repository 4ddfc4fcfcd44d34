package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/redistest"
)

func TestMain(m *testing.M) { trial.Main(m, main) }

func TestAKilledBrokerLosesNoDocument(t *testing.T)             { onTrial(t, trial.KilledBroker) }
func TestACutConnectionLosesNoDocument(t *testing.T)            { onTrial(t, trial.CutConnection) }
func TestAKilledWorkersDocumentsAreServedByOthers(t *testing.T) { onTrial(t, trial.KilledWorker) }
func TestAShutdownRepeatsNoDocument(t *testing.T)               { onTrial(t, trial.ShutdownUnderLoad) }
func TestAPoisonDocumentIsGivenUp(t *testing.T)                 { onTrial(t, trial.Poison) }
func TestTheBooksAreExactAfterRandomFaults(t *testing.T)        { onTrial(t, trial.Soak) }

func TestADocumentThatKillsItsWorkersIsGivenUp(t *testing.T) {
	onTrial(t, func(t *testing.T, example *program.Example, workerFlags ...string) {
		trial.Killer(t, example, 6, workerFlags...) // twice the tries of the trials
	})
}

func TestALongDocumentIsBegunOnce(t *testing.T) {
	onTrial(t, func(t *testing.T, example *program.Example, workerFlags ...string) {
		trial.LongDocument(t, example, 2*lease, workerFlags...)
	})
}

func TestAShutdownInALongDocumentFinishesIt(t *testing.T) {
	onTrial(t, func(t *testing.T, example *program.Example, workerFlags ...string) {
		trial.ShutdownInLongDocument(t, example, 2*lease, workerFlags...)
	})
}

func TestDocumentsComeOutByLevel(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Strict = true
		trial.Order(t, example(options), "redis://"+redistest.Start(t).Addr, 0)
	})
}

func TestAnUrgentDocumentOvertakes(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Strict = true
		trial.Overtaking(t, example(options), "redis://"+redistest.Start(t).Addr)
	})
}

// lease is that of the trials' workers.
const lease = 5 * time.Second

// onTrial puts the program on trial, with streams and with lists.
func onTrial(t *testing.T, scenario func(t *testing.T, example *program.Example, workerFlags ...string)) {
	onBoth(t, func(t *testing.T, options *Options) {
		flags := []string{"-lease", lease.String()}
		if options.Lists {
			flags = append(flags, "-lists")
		}
		scenario(t, example(options), flags...)
	})
}

// onBoth runs a test on streams and on lists.
func onBoth(t *testing.T, test func(t *testing.T, options *Options)) {
	t.Parallel()
	for name, lists := range map[string]bool{"streams": false, "lists": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &Options{Lists: lists})
		})
	}
}

func TestTheDemonstrationShowsEveryCustomersDocuments(t *testing.T) {
	t.Parallel()
	picture := filepath.Join(t.TempDir(), "picture.svg")
	var out strings.Builder
	err := program.Run(t.Context(), example(new(Options)), []string{"-svg", picture}, &out)
	if missing := (*server.MissingError)(nil); errors.As(err, &missing) {
		redistest.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{`bakery +30 `, `clinic +30 `, `dentist +30 `, `archive +400 `} {
		if !regexp.MustCompile(`(?m)^` + row).MatchString(out.String()) {
			t.Errorf("no row %q in\n%s", row, out.String())
		}
	}
	file, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for tokens := xml.NewDecoder(file); ; {
		if _, err := tokens.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
