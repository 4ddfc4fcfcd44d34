package vectors_test

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// A port in another language has the files, the scripts and README.md. This one does
// what that says, and uses nothing of the module's stores.
func TestAPortThatFollowsTheReadmeDecidesAsTheVectorsSay(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	scripts := scripts{blocks: blocks(t), written: make(map[string]string)}
	for _, file := range []string{"rule.json", "submit.json", "edges.json"} {
		var vectors struct{ Cases []vector }
		readJSON(t, file, &vectors)
		for i, vector := range vectors.Cases {
			t.Run(file+": "+vector.Name, func(t *testing.T) {
				port := &port{t: t, client: client, scripts: scripts, prefix: fmt.Sprintf("%s-%d", file, i), began: time.Now()}
				port.run(vector)
			})
		}
	}
}

type port struct {
	t       *testing.T
	client  *redis.Client
	scripts scripts
	prefix  string
	began   time.Time
}

func (p *port) run(vector vector) {
	p.t.Helper()
	now := int64(0)
	for i, step := range vector.Steps {
		if step.At > now {
			for _, customer := range vector.customers() {
				if err := passing.Run(p.t.Context(), p.client, p.keys(customer), step.At-now, stretch).Err(); err != nil {
					p.t.Fatal(err)
				}
			}
			now = step.At
		}
		p.step(fmt.Sprintf("step %d, %s", i, asJSON(p.t, step)), vector, step)
	}
}

func (p *port) step(where string, vector vector, step step) {
	p.t.Helper()
	if step.Do == "set" {
		ttl := step.TTL
		end := cmp.Or(step.Key, "count")
		if end == "count" && ttl > 0 {
			ttl = stretch*ttl + stretch/2
		}
		key := fmt.Sprintf("%s:{%s}:%s", p.prefix, step.Customer, end)
		if err := p.client.Set(p.t.Context(), key, *step.Value, milliseconds(ttl)).Err(); err != nil {
			p.t.Fatalf("%s: %v", where, err)
		}
		return
	}
	keys, args := p.call(step)
	script := p.scripts.of(p.t, step.Do+".lua", vector.Policy, cmp.Or(step.Lease, vector.Lease, 86_400_000))
	reply, err := redis.NewScript(script).Run(p.t.Context(), p.client, keys, args...).Int64Slice()
	if step.Error != "" || err != nil {
		if err == nil || step.Error == "" || !strings.Contains(err.Error(), step.Error) {
			p.t.Fatalf("%s: %v", where, err)
		}
		return
	}
	wants := step.Want
	if step.Do == "next" {
		wants = wants[len(wants)-1:]
	}
	got := decisionsOf(step, reply, stretch*vector.Policy.Interval+stretch/2)
	if vector.Lease == 0 {
		for i := range got {
			got[i].Pending = nil
		}
	}
	if want, got := asJSON(p.t, wants), asJSON(p.t, got); len(wants) > 0 && got != want {
		p.t.Fatalf("%s came to %s", where, got)
	}
	if want := step.MadeOf; want != nil {
		took := time.Since(p.began).Milliseconds() + 1
		usage, lease := want.Usage-reply[4], reply[7]-want.Lease
		if usage < 0 || usage > 1+want.Usage*took/day || reply[5] != want.Ordinary || reply[6] != want.Cost || lease < 0 || lease > 20*took {
			p.t.Fatalf("%s came to %v", where, reply[4:])
		}
	}
}

// keys are a customer's; those of the cases need no escape.
func (p *port) keys(customer string) []string {
	of := func(end string) string { return fmt.Sprintf("%s:{%s}:%s", p.prefix, customer, end) }
	return []string{of("count"), of("pending"), of("usage")}
}

// call returns the keys and arguments of a step's script, as its head says.
func (p *port) call(step step) (keys []string, args []any) {
	keys = p.keys(step.Customer)
	for _, document := range step.Documents {
		args = append(args, document)
	}
	switch step.Do {
	case "next":
		return keys[:1], []any{*step.N}
	case "done":
		return keys[1:], append([]any{step.Cost}, args...)
	}
	return keys, args
}

// decisionsOf reads a reply, as the script's head says.
func decisionsOf(step step, reply []int64, interval int64) []decision {
	of := func(level, count, pending, resetIn int64) decision {
		return decision{Level: priority.Level(level), Count: count, Pending: &pending, ResetIn: resetIn / stretch}
	}
	switch step.Do {
	case "next":
		if len(reply) == 2 {
			reply = append(reply, interval)
		}
		return []decision{of(reply[0], reply[1], 0, reply[2])}
	case "submit":
		var decisions []decision
		for one := range slices.Chunk(reply[:3*len(step.Documents)], 3) {
			decisions = append(decisions, of(one[0], one[1], one[2], reply[3*len(step.Documents)]))
		}
		return decisions
	case "peek":
		return []decision{of(reply[0], reply[1], reply[2], reply[3])}
	}
	return nil
}

// scripts are those of all policies and leases, each written once.
type scripts struct {
	blocks  map[string][]string
	written map[string]string
}

// of returns a script with the blocks that README.md shows filled in.
func (s scripts) of(t *testing.T, name string, policy policyOf, lease int64) string {
	t.Helper()
	key := fmt.Sprint(name, policy, lease)
	if s.written[key] == "" {
		s.written[key] = render(t, s.blocks, name, policy, 50_000*policy.Interval+25_000, lease)
	}
	return s.written[key]
}

// render writes a policy's and a lease's lines into the blocks of a script.
func render(t *testing.T, blocks map[string][]string, name string, policy policyOf, interval, lease int64) string {
	t.Helper()
	first, lowest := int64(1), int64(0)
	if n := len(policy.Thresholds); n > 0 {
		first, lowest = max(1, -policy.Thresholds[0]), policy.Thresholds[n-1]
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	numbers := strings.NewReplacer(
		"INTERVAL", number(interval), "RESET", strconv.FormatBool(policy.Mode == "since_last_reset"),
		"LEASE", number(lease), "FIRST", number(first), "LEVELS", number(int64(len(policy.Thresholds)+1)),
		"LOWEST", number(lowest),
	)
	script := text(t, "../lua/"+name)
	for block, lines := range blocks {
		body := ""
		if block == "levels" && len(policy.Thresholds) == 0 {
			lines = lines[:1]
		}
		for _, line := range lines {
			if !strings.Contains(line, "THRESHOLD") {
				body += numbers.Replace(line) + "\n"
				continue
			}
			for i, threshold := range policy.Thresholds {
				body += strings.NewReplacer("THRESHOLD", number(threshold), "LEVEL", strconv.Itoa(i+1)).Replace(line) + "\n"
			}
		}
		between := regexp.MustCompile(`(?s)(-- begin ` + block + `\n).*(-- end ` + block + `\n)`)
		script = between.ReplaceAllString(script, "${1}"+body+"${2}")
	}
	return script
}

// blocks are the lines of each block in README.md's table.
func blocks(t *testing.T) map[string][]string {
	t.Helper()
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*`(?:local) .*) \\|$").FindAllStringSubmatch(text(t, "README.md"), -1)
	found := make(map[string][]string)
	for _, row := range rows {
		for _, line := range regexp.MustCompile("`((?:local|if|elseif) [^`]*|end)`").FindAllStringSubmatch(row[2], -1) {
			found[row[1]] = append(found[row[1]], line[1])
		}
	}
	if len(found) != 4 {
		t.Fatalf("README.md's table of blocks has %v", found)
	}
	return found
}

// README.md says of each block of the scripts whether a port replaces it.
func TestTheReadmeNamesTheBlocksOfTheScripts(t *testing.T) {
	files, _ := filepath.Glob("../lua/*.lua")
	readme := text(t, "README.md")
	for _, file := range files {
		for _, block := range regexp.MustCompile(`-- begin (\w+)`).FindAllStringSubmatch(text(t, file), -1) {
			if !strings.Contains(readme, "`"+block[1]+"`") {
				t.Errorf("README.md does not name the block %s of %s", block[1], file)
			}
		}
	}
	if len(files) == 0 {
		t.Error("there is no script")
	}
}

// What README.md says of the keys.
func TestAPortThatFollowsTheReadmeMakesTheKeys(t *testing.T) {
	var vectors struct{ Keys []keysOf }
	readJSON(t, "keys.json", &vectors)
	for _, key := range vectors.Keys {
		customer, err := hex.DecodeString(key.Customer)
		if err != nil {
			t.Fatal(err)
		}
		escaped := strings.NewReplacer("%", "%25", "}", "%7D").Replace(string(customer))
		for end, want := range map[string]string{"count": key.Count, "pending": key.Pending, "usage": key.Usage} {
			if got := hex.EncodeToString(fmt.Appendf(nil, "%s:{%s}:%s", key.Prefix, escaped, end)); got != want {
				t.Errorf("%s of %s is %s", end, key.Shown, got)
			}
		}
	}
}

func readJSON(t *testing.T, file string, value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text(t, file)), value); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
