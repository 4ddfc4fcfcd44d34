package redistest

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// WantNothingRefused fails the test if the server refused a user anything, except the
// subcommands of CLIENT, of which go-redis tries some for each connection.
func WantNothingRefused(tb testing.TB, client redis.UniversalClient) {
	tb.Helper()
	entries, err := client.ACLLog(tb.Context(), 100).Result()
	if err != nil {
		tb.Error(err)
	}
	for _, entry := range entries {
		if entry.Object != "client" && !strings.HasPrefix(entry.Object, "client|") {
			tb.Errorf("Redis refused %s %d times", entry.Object, entry.Count)
		}
	}
}
