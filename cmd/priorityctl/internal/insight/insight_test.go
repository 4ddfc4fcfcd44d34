package insight

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/memory"
)

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

// The level that is explained is the one that a user of an account gets.
func TestLevelOf(t *testing.T) {
	random, policy, byAccount := rand.New(rand.NewPCG(1, 1)), priority.DefaultPolicy(), map[bool]int{}
	for range 30 {
		store, err := memory.New(&memory.Options{Accounts: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			name := []string{"acme", "acme/mary", "acme/bob"}[random.IntN(3)]
			documents := make([]priority.Document, 1+random.IntN(1<<random.IntN(9)))
			for n := range documents {
				documents[n].ID = fmt.Sprint(i, " ", n)
			}
			_, err := store.SubmitN(t.Context(), name, documents)
			state, peek := store.Peek(t.Context(), name)
			if err != nil || peek != nil {
				t.Fatal(err, peek)
			}
			level, by := levelOf(policy, state, state.Load)
			if byAccount[by]++; level != state.RuleLevel {
				t.Fatalf("level %d, not %d: %+v", level, state.RuleLevel, state)
			}
		}
	}
	if byAccount[true] < 50 || byAccount[false] < 50 {
		t.Errorf("the account decides so often: %v", byAccount)
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

// Redis's clock is compared with this machine's, and the workers' with Redis's.
func TestClockChecks(t *testing.T) {
	s := &Snapshot{Inspector: &Inspector{Client: redis.NewClient(&redis.Options{})}}
	for _, want := range []string{"agree to within a minute", "Redis's clock is 10m behind this machine's", "w1: the clock is up to 20m ahead of Redis's"} {
		checks := s.clockChecks(t.Context(), new(Top))
		if last := checks[len(checks)-1]; !strings.Contains(last.Found, want) {
			t.Errorf("%+v", checks)
		}
		if s.ahead != 0 {
			s.Workers = []Worker{{Name: "w1", Here: true, counts: true, ahead: 10 * time.Minute}}
			if again := s.clockChecks(t.Context(), new(Top)); len(again) != 1 { // it agrees with this machine
				t.Errorf("%+v", again)
			}
			s.Workers[0].ahead = 20 * time.Minute
		}
		s.ahead = -10 * time.Minute
	}
}
