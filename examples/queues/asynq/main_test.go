package main

import (
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/queue"
	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) { trial.Main(m, main) }

func TestPromises(t *testing.T) {
	trial.Run(t, &trial.Subject{
		Example: example,
		Flags:   []string{"-check", "20ms"},
		More: map[string][]string{
			"DocumentsComeOutByLevel": {"-strict"}, "AnUrgentDocumentOvertakes": {"-strict"}, "AFailedDocumentKeepsItsLevel": {"-strict"},
		},
		Weighted: true,
		Long:     35 * time.Second, // asynq's lease is 30 s, and its own time for a shutdown 8 s
		Refuses:  func(name string) bool { return !utf8.ValidString(name) },
		Expire:   expire,
	})
}

// expire has the leases of all documents in hand have ended a good minute ago. asynq
// waits for 30 s after a lease's end, and looks once a minute and when a worker starts.
func expire(tb testing.TB, url, name string) {
	tb.Helper()
	address, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	client := redis.NewClient(address)
	defer client.Close()
	for _, one := range queue.Names(name, 9) {
		key := fmt.Sprintf("asynq:{%s}:lease", one)
		for _, id := range client.ZRange(tb.Context(), key, 0, -1).Val() {
			client.ZAdd(tb.Context(), key, redis.Z{Member: id, Score: float64(time.Now().Add(-time.Minute).Unix())})
		}
	}
}
