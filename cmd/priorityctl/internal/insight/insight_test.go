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
