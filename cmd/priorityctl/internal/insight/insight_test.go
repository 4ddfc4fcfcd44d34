package insight

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/customer"
	"github.com/docpriority/priority/internal/fair"
)

// A shell reads the customer of a command that is shown, whatever the name is.
func TestCommandFor(t *testing.T) {
	i := &Inspector{Options: Options{Prefix: "team's"}}
	for _, who := range []string{"acme", "it's; $(touch pwned)", `<b> & "x"`, "-rf", " a  b", "line\r\nbreak\x00", "\u202eright", "\xff\xfe", "~", "*"} {
		shell := exec.Command("sh", "-c", `priorityctl() { for last; do :; done; printf %s "$last"; case "$last" in -) cat;; esac; }
`+i.CommandFor(who, "override end -why ''"))
		shell.Dir = t.TempDir()
		out, err := shell.Output()
		got := string(out)
		if text, ok := strings.CutPrefix(got, "-"); ok && strings.HasPrefix(text, "{") {
			var name customer.Name
			if err := json.Unmarshal([]byte(text), &name); err != nil || name.Check() != nil {
				t.Errorf("%q: %s", who, text)
			}
			got = name.Exact()
		}
		if err != nil || got != who {
			t.Errorf("%q is read as %q: %v", who, got, err)
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
				if in := load > row.Over && load <= row.UpTo && row.Pending == 0; in != (policy.LevelOfLoad(load, 1) == row.Level) {
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
		state := priority.State{Rule: priority.ByLoad, Recent: float64(pending), Cost: 1, Pending: pending}
		level := func(pending int64) priority.Level {
			load := fair.Load(int64(1000*nextRecent(state)), pending+1, 1000)
			return policy.LevelOfLoad(float64(load)/1e6, state.PendingFlood+1)
		}
		state.RuleLevel = level(pending)
		b := betterOf(policy, state)
		if b.FewerPending > 0 && (level(pending-b.FewerPending) != b.FewerLevel || b.FewerLevel >= state.RuleLevel || level(pending-b.FewerPending+1) < state.RuleLevel) {
			t.Errorf("%d pending, level %d: %+v", pending, state.RuleLevel, b)
		}
	}
}

// Why a process does not follow operators comes from its code, whatever the language; a process
// that has only not read the newest policies yet has none.
func TestWhyNot(t *testing.T) {
	s := &Snapshot{Applied: control.Applied{Version: 12}}
	for want, f := range map[string]control.Following{
		"": {Version: 12},
		"still follows its own options, not version 12":                       {Own: true},
		"still follows version 11, not version 12":                            {Version: 11},
		"Redis lost policies: version 15 was known, 12 is there":              {Version: 15, Code: control.Lost, Detail: "version 15 was known, 12 is there"},
		"the policies' key is corrupt":                                        {Version: 11, Code: control.Corrupt},
		"a later version of the module wrote the policies":                    {Version: 11, Code: control.Newer},
		"it cannot use the policies: its queue has 9 levels, the policies 22": {Version: 11, Code: control.Invalid, Detail: "its queue has 9 levels, the policies 22"},
		"Redis refuses to tell it the policies: NOPERM":                       {Own: true, Code: control.Refused, Detail: "NOPERM"},
		"Redis does not tell it the policies":                                 {Version: 12, Code: control.Unreachable},
		"paused: by its owner":                                                {Version: 12, Code: "paused", Detail: "by its owner"},
	} {
		r := fleet.Report{Levels: 9, Overrides: true, Following: f}
		if got := s.whyNot(r); got != want || s.lags(r) != strings.HasPrefix(want, "still") {
			t.Errorf("%+v: %q, not %q", f, got, want)
		}
	}
}

// Each worker that has started replaces one that was gone by then.
func TestWorkers_Replaced(t *testing.T) {
	s := &Snapshot{Inspector: new(Inspector), At: time.Now()}
	const minute = time.Minute
	for name, r := range map[string]fleet.Report{
		"a": {Age: 20 * minute}, "b": {Age: 10 * minute}, "c": {Age: 2 * minute}, // gone
		"d": {Up: 5 * minute}, "e": {Up: 15 * minute}, "f": {Up: 30 * minute},
	} {
		r.ID = name
		s.Reports = append(s.Reports, r)
	}
	for _, w := range s.workers() {
		if want := w.ID == "a" || w.ID == "b"; w.Replaced != want {
			t.Errorf("%+v", w)
		}
	}
}

// The entry's customer is whole in JSON, in whichever field.
func TestLoggedOf(t *testing.T) {
	at := time.UnixMilli(1e12)
	policies := priority.Policies{Policy: priority.DefaultPolicy()}
	for want, entry := range map[string]control.Entry{
		"acme pinned to level 2, for 1h": {Kind: "override", Customer: "acme", At: at, Until: at.Add(time.Hour), Bounds: priority.Bounds{Earliest: 2, Latest: 2}},
		"acme: override ended":           {Kind: "override", Customer: "acme"},
		`"\xff" reset`:                   {Kind: "reset", Customer: "\xff"},
		"a customer forgotten":           {Kind: "forget"},
		"policies withdrawn (version 3): the workers' own options": {Kind: "policies", Applied: &control.Applied{Version: 3}},
		"policies applied (version 4): 9 levels, reset after 25m":  {Kind: "policies", Applied: &control.Applied{Version: 4, Policies: &policies}},
		"corrupt": {Kind: "corrupt"},
	} {
		logged := LoggedOf(entry)
		text, err := json.Marshal(logged)
		var read customer.Name
		if err := errors.Join(err, json.Unmarshal(text, &read)); err != nil || read.Exact() != entry.Customer || !strings.HasPrefix(logged.Says, want) {
			t.Errorf("got %s, want %q: %v", text, want, err)
		}
	}
}

// No text shows a password, and a missing right says where they stand.
func TestHidden(t *testing.T) {
	i := &Inspector{Options: Options{Secrets: []string{"hush"}}}
	for said, want := range map[string]string{
		"ERR unknown command, with args beginning with: 'hush'":          "ERR unknown command, with args beginning with: '***'",
		"NOPERM this user has no permissions":                            `NOPERM this user has no permissions; docs/redis.md, "Rights"`,
		"ERR ACL failure in script: User u has no permissions":           `no permissions; docs/redis.md, "Rights"`,
		"ERR @user_script: The user executing the script can't run this": `can't run this; docs/redis.md, "Rights"`,
		"OOM command not allowed when used memory > 'maxmemory'":         "raise maxmemory",
		"dial redis://u:pw@h\x1b[31m\n":                                  "dial redis://***@h [31m",
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
