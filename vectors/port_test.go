package vectors_test

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
	want, got := step, step
	got.read(reply, stretch*vector.Policy.Interval+stretch/2)
	if step.Do == "next" {
		want.Want = want.Want[len(want.Want)-1:]
	}
	got.forgive(want, time.Since(p.began).Milliseconds()+1)
	if want, got := asJSON(p.t, want), asJSON(p.t, got); got != want {
		p.t.Fatalf("%s came to %s", where, got)
	}
}

// keys are a customer's; the cases' need no escape.
func (p *port) keys(customer string) []string {
	of := func(end string) string { return fmt.Sprintf("%s:{%s}:%s", p.prefix, customer, end) }
	return []string{of("count"), of("pending"), of("usage"), of("override")}
}

// call returns the keys and arguments of a step's script, as its head says.
func (p *port) call(step step) (keys []string, args []any) {
	keys = p.keys(step.Customer)
	for i, document := range step.Documents {
		args = append(args, document)
		if step.Do == "submit" && step.Costs == nil {
			args = append(args, 0)
		} else if step.Do == "submit" {
			args = append(args, step.Costs[i])
		}
	}
	switch step.Do {
	case "next":
		return []string{keys[0], keys[3]}, []any{*step.N}
	case "submit":
		return keys[1:], args
	case "done":
		return keys[1:3], append([]any{step.Cost}, args...)
	case "reset":
		return keys[:3], nil
	}
	return keys, args
}

// read reads a reply, as the script's head says.
func (s *step) read(reply []int64, interval int64) {
	s.Want, s.State = nil, nil
	switch s.Do {
	case "next":
		if len(reply) == 2 {
			reply = append(reply, interval)
		}
		resetIn := reply[2] / stretch
		s.Want = []result{{Level: reply[0], Ruled: append(reply, 0)[3], Count: &reply[1], ResetIn: &resetIn}}
	case "submit":
		for one := range slices.Chunk(reply[:4*len(s.Documents)], 4) {
			s.Want = append(s.Want, result{Level: one[0], Load: &one[1], Pending: &one[2], Ruled: one[3]})
		}
	case "done":
		for one := range slices.Chunk(reply, 2) {
			s.Want = append(s.Want, result{Sojourn: &one[0], Level: one[1]})
		}
	case "peek":
		rule := []string{"unknown", "by_count", "by_load"}[reply[0]]
		s.State = &state{
			rule, reply[1], reply[2], reply[3], reply[4] / stretch, reply[5], reply[6], reply[7], reply[8], reply[9], reply[10], reply[11], reply[12],
			reply[13], reply[14], reply[15], max(reply[16], 0),
		}
	}
}

// scripts are the scripts of all policies and leases, each written once.
type scripts struct {
	blocks  map[string][]string
	written map[string]string
}

// of returns a script with the blocks that README.md shows filled in.
func (s scripts) of(t *testing.T, name string, policy policyOf, lease int64) string {
	t.Helper()
	key := fmt.Sprint(name, asJSON(t, policy), lease)
	if s.written[key] == "" {
		s.written[key] = render(t, s.blocks, name, policy, 50_000*policy.Interval+25_000, lease)
	}
	return s.written[key]
}

// render writes a policy's and a lease's lines into the blocks of a script.
func render(t *testing.T, blocks map[string][]string, name string, policy policyOf, interval, lease int64) string {
	t.Helper()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	bounds := map[string][]int64{"levels": policy.Thresholds}
	for _, load := range policy.loads() {
		bounds["loads"] = append(bounds["loads"], int64(math.Round(load*1e6)))
	}
	numbers := strings.NewReplacer(
		"INTERVAL", number(interval), "RESET", strconv.FormatBool(policy.Mode == "since_last_reset"),
		"LEASE", number(lease), "LAST", strconv.Itoa(len(bounds["loads"])+1), "TURNS", strconv.Itoa(policy.Turns),
		"QUEUE", strconv.Itoa(max(len(policy.Thresholds)+1, len(bounds["loads"])+1+policy.Turns)),
	)
	script := text(t, "../lua/"+name)
	for block, lines := range blocks {
		body := ""
		of := bounds[block]
		if len(of) == 0 && (block == "levels" || block == "loads") {
			lines = lines[:1]
		}
		for _, line := range lines {
			switch {
			case strings.Contains(line, "BOUND"):
				for i, bound := range of {
					body += strings.NewReplacer("BOUND", number(bound), "LEVEL", strconv.Itoa(i+1)).Replace(line) + "\n"
				}
			case strings.Contains(line, "FINAL"):
				body += strings.NewReplacer("FINAL", number(of[len(of)-1]), "LEVELS", strconv.Itoa(len(of)+1)).Replace(line) + "\n"
			default:
				body += numbers.Replace(line) + "\n"
			}
		}
		between := regexp.MustCompile(`(?s)(-- begin ` + block + `\n).*(-- end ` + block + `\n)`)
		script = between.ReplaceAllString(script, "${1}"+body+"${2}")
	}
	return script
}

// loads are the policy's, or of README.md's table where it has none.
func (p policyOf) loads() []float64 {
	if p.Loads != nil {
		return p.Loads
	}
	return map[int][]float64{
		0: {}, 1: {32768}, 2: {8192, 32768}, 3: {128, 8192, 32768}, 4: {8, 512, 8192, 32768},
		5: {8, 128, 512, 8192, 32768}, 6: {2, 32, 128, 2048, 8192, 32768}, 7: {2, 8, 128, 512, 2048, 8192, 32768},
		8: {2, 8, 32, 128, 512, 2048, 8192, 32768},
	}[min(len(p.Thresholds), 8)]
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
	if len(found) != 6 {
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
		for end, want := range map[string]string{"count": key.Count, "pending": key.Pending, "usage": key.Usage, "override": key.Override} {
			if got := hex.EncodeToString(fmt.Appendf(nil, "%s:{%s}:%s", key.Prefix, escaped, end)); got != want {
				t.Errorf("%s of %s is %s", end, key.Shown, got)
			}
		}
	}
}

// What README.md's table says of errors.
func TestAPortThatFollowsTheReadmeClassifiesErrors(t *testing.T) {
	var vectors struct{ Answers []answerOf }
	readJSON(t, "errors.json", &vectors)
	for _, want := range vectors.Answers {
		if got := classByReadme(t, want.Answer); got != want {
			t.Errorf("%q is %s %s, want %s %s", got.Answer, got.Class, got.Then, want.Class, want.Then)
		}
	}
}

func classByReadme(t *testing.T, answer string) answerOf {
	t.Helper()
	within := regexp.MustCompile(`^ERR Error running script \(call to f_[0-9a-f]{40}\): @user_script:\d+: @user_script: \d+: -?((READONLY|OOM|MISCONF|NOREPLICAS) .*)`)
	if inner := within.FindStringSubmatch(answer); inner != nil {
		got := classByReadme(t, inner[1])
		got.Answer = answer
		return got
	}
	rows := regexp.MustCompile("(?m)^\\| (`[A-Z].*) \\| `(\\w+)` \\|(?: `(\\w+)`)? \\|$").FindAllStringSubmatch(text(t, "README.md"), -1)
	if len(rows) != 6 {
		t.Fatalf("README.md's table of errors has %q", rows)
	}
	for _, row := range rows {
		for _, code := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[1], -1) {
			if strings.HasPrefix(answer+" ", code[1]+" ") {
				return answerOf{answer, row[2], row[3]}
			}
		}
	}
	return answerOf{answer, outcomeUnknown, ""}
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
