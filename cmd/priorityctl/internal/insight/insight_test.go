package insight

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/fair"
	"github.com/redis/go-redis/v9"
)

// A shell reads the customer of a command that is shown, whatever the name is.
func TestCommandFor(t *testing.T) {
	i := &Inspector{Options: Options{Prefix: "team's"}}
	for _, customer := range []string{"acme", "it's; $(touch pwned)", `<b> & "x"`, "-rf", " a  b", "line\r\nbreak\x00", "\u202eright", "\xff\xfe", "~", "*"} {
		shell := exec.Command("sh", "-c", `priorityctl() { for last; do :; done; printf %s "$last"; case "$last" in -) cat;; esac; }
`+i.CommandFor(customer, "override end -why ''"))
		shell.Dir = t.TempDir()
		out, err := shell.Output()
		got := string(out)
		if text, ok := strings.CutPrefix(got, "-"); ok && strings.HasPrefix(text, "{") {
			var name Name
			if err := json.Unmarshal([]byte(text), &name); err != nil || name.Check() != nil {
				t.Errorf("%q: %s", customer, text)
			}
			got = name.Exact()
		}
		if err != nil || got != customer {
			t.Errorf("%q is read as %q: %v", customer, got, err)
		}
	}
}

// The table says of each load and count what the policy decides.
func TestRows(t *testing.T) {
	for _, policy := range []priority.Policy{priority.DefaultPolicy(), priority.Policy{Thresholds: []int64{-1, -5}}.WithDefaults(), priority.Policy{Thresholds: []int64{-1}, Loads: []float64{1, 2, 3}, Turns: 2}.WithDefaults()} {
		rows := Rows(policy)
		for count := int64(-30); count < 5; count++ {
			for _, row := range rows {
				if in := count >= row.Least && count <= row.Most; in != (policy.Level(count) == row.Level) {
					t.Errorf("count %d, level %d: %v", count, row.Level, in)
				}
			}
		}
		for load := 0.5; load < 1e5; load *= 1.5 {
			for _, row := range rows {
				if in := load > row.Over && load <= row.UpTo && row.Pending == 0; in != (policy.LevelOfLoad(load) == row.Level) {
					t.Errorf("load %g, level %d: %v, %+v", load, row.Level, in, row)
				}
			}
		}
	}
}

// What it takes for a better level is enough, and one less is not.
func TestBetter(t *testing.T) {
	policy := priority.DefaultPolicy()
	for pending := int64(1); pending < 400; pending += 7 {
		s := State{rule: priority.ByLoad, Recent: float64(pending), Cost: 1, Pending: pending, LatencyMS: 1}
		level := func(counting int64) priority.Level {
			load := fair.Load(int64(1000*s.recentThen()), counting+1, 1000)
			return levelOfLoad(policy, float64(load)/1e6, s.PendingLast+1)
		}
		s.RuleLevel = level(pending)
		b := betterOf(policy, s)
		if b.FewerPending > 0 && (level(pending-b.FewerPending) != b.FewerLevel || b.FewerLevel >= s.RuleLevel || level(pending-b.FewerPending+1) < s.RuleLevel) {
			t.Errorf("%d pending, level %d: %+v", pending, s.RuleLevel, b)
		}
	}
}

func TestLoggedOf(t *testing.T) {
	at := time.UnixMilli(1e12)
	rules := control.Rules{Policy: priority.DefaultPolicy()}
	for want, entry := range map[string]control.Entry{
		"acme pinned to level 2, for 1h": {Kind: "override", Customer: "acme", At: at, Until: at.Add(time.Hour), Override: priority.Override{Earliest: 2, Latest: 2}},
		"acme: override ended":           {Kind: "override", Customer: "acme"},
		"acme reset":                     {Kind: "reset", Customer: "acme"},
		"a customer forgotten":           {Kind: "forget"},
		"policy withdrawn (version 3): the workers' own options": {Kind: "policy", Applied: &control.Applied{Version: 3}},
		"policy applied (version 4): 9 levels, reset after 25m":  {Kind: "policy", Applied: &control.Applied{Version: 4, Rules: &rules}},
		"corrupt": {Kind: "corrupt"},
	} {
		if got := LoggedOf(entry).Says; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// No text shows a password, and a missing right says where they stand.
func TestHidden(t *testing.T) {
	i := &Inspector{Options: Options{Secrets: []string{"hush"}}}
	for said, want := range map[string]string{
		"ERR unknown command, with args beginning with: 'hush'":  "ERR unknown command, with args beginning with: '***'",
		"NOPERM this user has no permissions":                    `NOPERM this user has no permissions; docs/redis.md, "Rights"`,
		"OOM command not allowed when used memory > 'maxmemory'": "raise maxmemory",
		"dial redis://u:pw@h\x1b[31m\n":                          "dial redis://***@h [31m",
	} {
		if got := OneLine(i.Hidden(reply(said))); !strings.Contains(got, want) {
			t.Errorf("%q is shown as %q", said, got)
		}
	}
	if Unreachable(errors.New("nothing was changed")) || Unreachable(reply("ERR x")) || !Unreachable(redis.ErrPoolTimeout) {
		t.Error("a wrong kind of error")
	}
}

type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}
