package main

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority/examples/queues/internal/trial"
	priorityredis "github.com/docpriority/priority/queue/redis"
)

func TestMain(m *testing.M) { trial.Main(m, main) }

func TestPromises(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		strict := []string{"-strict"}
		s := &trial.Subject{
			Example: example,
			Flags:   []string{"-lease", "5s"},
			More: map[string][]string{
				"DocumentsComeOutByLevel": strict, "AnUrgentDocumentOvertakes": strict, "AFailedDocumentKeepsItsLevel": strict,
			},
			Weighted: true,
			Long:     10 * time.Second,
			Deaths:   6, // twice the tries
		}
		if options.Lists {
			s.Flags = append(s.Flags, "-lists")
			s.Text, s.Refuses = true, func(name string) bool { return !utf8.ValidString(name) }
		}
		trial.Run(t, s)
	})
}

// onBoth runs a test on streams and on lists.
func onBoth(t *testing.T, test func(t *testing.T, options *priorityredis.Options)) {
	t.Parallel()
	for name, lists := range map[string]bool{"streams": false, "lists": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &priorityredis.Options{Lists: lists})
		})
	}
}
