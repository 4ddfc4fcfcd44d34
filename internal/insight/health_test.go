package insight_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestHealthGoesThroughAllChecksAndLeavesNothing(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes")
	client := server.Client()
	inspector := steered(t, client, priority.RedisOptions{})
	health, err := inspector.Health(t.Context(), 51)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, check := range health.Checks {
		names = append(names, check.Check)
		if started := check.Check == "start" && strings.HasPrefix(check.Found, "up for "); started && check.Status == insight.StatusWarning {
			continue
		}
		if check.Status != insight.StatusOK || check.Remedy != "" || check.Node != "" {
			t.Errorf("got %+v", check)
		}
	}
	if want := []string{"connection", "version", "ping", "peek", "next", "submit", "control", "memory", "persistence", "start", "replication", "workers"}; !slices.Equal(names, want) {
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
	if check := checkOf(t, health, "replication"); check.Status != insight.StatusFailed || check.Remedy == "" {
		t.Errorf("got %+v", check)
	}
}

func checkOf(t *testing.T, health *insight.Health, name string) insight.Check {
	t.Helper()
	for _, check := range health.Checks {
		if check.Check == name {
			return check
		}
	}
	t.Fatalf("no check %s in %+v", name, health)
	return insight.Check{}
}

// Whoever looks after an outage is told what a restart takes away, and that there was one.
func TestHealthTellsWhatARestartTakesAway(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status insight.Status
		found  string
	}{
		{nil, insight.StatusWarning, "none: neither snapshots nor"},
		{[]string{"--save", "900 1"}, insight.StatusOK, "snapshots"},
		{[]string{"--appendonly", "yes"}, insight.StatusOK, "append-only file"},
	} {
		health, err := inspectorOf(t, redistest.Start(t, test.args...).Client(), priority.RedisOptions{}).Health(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if check := checkOf(t, health, "persistence"); check.Status != test.status || !strings.HasPrefix(check.Found, test.found) || (check.Remedy == "") != (test.status == insight.StatusOK) {
			t.Errorf("%q: got %+v", test.args, check)
		}
		if check := checkOf(t, health, "start"); check.Status != insight.StatusWarning || !strings.Contains(check.Remedy, "control import") {
			t.Errorf("got %+v", check)
		}
	}
}

// Rules that Redis lost are what the workers say of them; a right that is missing is named.
func TestHealthSaysWhatWorkersLackAndWhatControlLacks(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := steered(t, client, priority.RedisOptions{})
	if _, err := inspector.Admin.Apply(t.Context(), control.Rules{}, change); err != nil {
		t.Fatal(err)
	}
	check := func(name string, on *insight.Inspector) insight.Check {
		t.Helper()
		health, err := on.Health(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return checkOf(t, health, name)
	}
	if got := check("workers", inspector); got.Status != insight.StatusOK || got.Found != "no reports" {
		t.Errorf("got %+v", got)
	}
	report(t, client, "priority", fleet.Report{ID: "a", Name: "w1", Levels: 9, Overrides: true, Rules: fleet.Rules{Version: 1}})
	if got := check("workers", inspector); got.Status != insight.StatusOK || got.Found != "the only worker obeys" {
		t.Errorf("got %+v", got)
	}
	const lost = "Redis lost data: version 10000 was known, 0 is there"
	report(t, client, "priority", fleet.Report{ID: "b", Name: "w2", Host: "b", Levels: 9, Overrides: true, Rules: fleet.Rules{Version: 10_000, Error: lost}})
	if got := check("workers", inspector); got.Status != insight.StatusWarning || !strings.HasSuffix(got.Found, "w2 on host b does not: "+lost) || !strings.Contains(got.Remedy, "priorityctl control import") {
		t.Errorf("got %+v", got)
	}

	if keys := client.Keys(t.Context(), "*ping*").Val(); len(keys) != 0 {
		t.Errorf("left are %q", keys)
	}
	for rights, want := range map[string]string{
		insight.ControlWriteRights:                                         "",
		strings.Replace(insight.ControlWriteRights, "+xadd", "", 1):        "grant +xadd",
		strings.Replace(insight.ControlWriteRights, "+script|load", "", 1): "grant +script|load",
		strings.Replace(insight.ControlWriteRights, "+hgetall", "", 1):     "grant +hgetall",
		strings.Replace(insight.ControlWriteRights, "+set ", "", 1):        "grant +set",
		strings.Replace(insight.ControlWriteRights, "+xrevrange", "", 1):   "grant +xrevrange",
	} {
		args := []any{"ACL", "SETUSER", "limited", "reset", "on", ">pass", "~priority:*", "-@all"}
		for right := range strings.FieldsSeq(rights + " " + insight.NextRights + " " + insight.SubmitRights + " +config|get +info +ping +type") {
			if right != strings.TrimPrefix(want, "grant ") {
				args = append(args, right)
			}
		}
		if err := client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		options := *client.Options()
		options.Username, options.Password = "limited", "pass"
		limited := redis.NewClient(&options)
		got := check("control", steered(t, limited, priority.RedisOptions{}))
		if ok := got.Status == insight.StatusOK; ok != (want == "") || !strings.Contains(got.Remedy, want) {
			t.Errorf("without %s: got %+v", want, got)
		}
		limited.Close()
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
