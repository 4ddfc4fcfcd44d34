package main

import (
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m, main) }

func TestPromises(t *testing.T) {
	strict := []string{"-strict"}
	trial.Run(t, &trial.Subject{
		Example: example,
		Flags:   []string{"-ack-wait", "5s"}, // a worker is lost soon
		More: map[string][]string{
			"DocumentsComeOutByLevel": strict, "AnUrgentDocumentOvertakes": strict, "AFailedDocumentKeepsItsLevel": strict,
		},
		Weighted: true,
		Long:     10 * time.Second,
	})
}
