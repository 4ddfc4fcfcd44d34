package insight_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
)

func TestHealthGoesThroughAllChecksAndLeavesNothing(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	inspector := inspectorOf(t, client, priority.RedisOptions{})
	health, err := inspector.Health(t.Context(), 51)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, check := range health.Checks {
		names = append(names, check.Check)
		if check.Status != insight.StatusOK || check.Remedy != "" || check.Node != "" {
			t.Errorf("got %+v", check)
		}
	}
	if want := []string{"connection", "version", "ping", "peek", "next", "submit", "memory", "replication"}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
	if !health.OK || health.Redis != inspector.Server.Address || health.Peek.MedianUS == 0 || health.Peek.MaxUS < health.Peek.MedianUS {
		t.Errorf("got %+v", health)
	}
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("left are %q", keys)
	}
	server.Kill()
	if health, err := inspector.Health(t.Context(), 3); !insight.Unreachable(err) {
		t.Errorf("got %+v, %v", health, err)
	}
}

func TestAFailedCheckMakesTheWholeFail(t *testing.T) {
	replica := redistest.StartReplica(t, redistest.Start(t))
	health, err := inspectorOf(t, replica.Client(), priority.RedisOptions{}).Health(t.Context(), 1)
	if err != nil || health.OK {
		t.Fatalf("got %+v, %v", health, err)
	}
	last := health.Checks[len(health.Checks)-1]
	if last.Check != "replication" || last.Status != insight.StatusFailed || last.Remedy == "" {
		t.Errorf("got %+v", last)
	}
}

func TestNoErrorTellsASecret(t *testing.T) {
	inspector := insight.Inspector{Secrets: []string{"hush"}}
	cause := reply("wrong arguments 'hush'\nat redis://ann:other@host")
	err := inspector.Hidden(cause)
	if !errors.Is(err, cause) || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
	if want := "wrong arguments '***' at redis://***@host"; insight.OneLine(err) != want {
		t.Errorf("got %q", insight.OneLine(err))
	}
	// What Redis says is searched for a secret that stands alone; what else is said is not.
	for _, test := range []struct{ secret, said, around, want string }{
		{"hush", "ERR wrong arguments 'AUTH' 'hush'", "acme: %w", "acme: ERR wrong arguments 'AUTH' '***'"},
		{"hush", "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `ann`, `hush`, ", "%w", "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `ann`, `***`, "},
		{"hush", "ERR AUTH hush", "hush: %w", "hush: ERR AUTH ***"},
		{"a", "WRONGPASS invalid username-password pair", "acme: %w", "acme: WRONGPASS invalid username-password pair"},
		{"ä", "ERR 'ä' 'äö'", "%w", "ERR '***' 'äö'"},
		{"*", "ERR '*'", "%w", "ERR '***'"},
		{"", "ERR '*'", "%w", "ERR '*'"},
	} {
		inspector.Secrets = []string{test.secret}
		err := inspector.Hidden(errors.Join(errors.New("first"), fmt.Errorf(test.around, reply(test.said))))
		if got := strings.TrimPrefix(err.Error(), "first\n"); got != test.want {
			t.Errorf("%s: got %q, not %q", test.secret, got, test.want)
		}
	}
	if inspector.Hidden(nil) != nil {
		t.Error("nil is an error")
	}
}

// reply is an error that Redis replied with.
type reply string

func (e reply) Error() string { return string(e) }
func (reply) RedisError()     {}
