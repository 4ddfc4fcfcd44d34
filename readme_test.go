package priority_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
)

// pages are the documents whose snippets and commands are run here. The others
// are run by the modules that they are about.
var pages = []string{
	"README.md", "docs/policies.md", "docs/redis.md", "docs/control.md", "docs/fleet.md",
	"docs/how-to/from-a-rate-limiter.md", "docs/how-to/migrate-prefix.md",
}

// Every Go block prints what its "// prints:" comments say. On a machine that is busy
// the default timeout may be too short, so there are some tries.
func TestSnippetsDoWhatTheirPagesSay(t *testing.T) {
	t.Parallel()
	var snippets []string
	for _, page := range pages {
		snippets = append(snippets, markdown.Read(t, page).Blocks("go")...)
	}
	snippets = slices.DeleteFunc(snippets, func(snippet string) bool {
		return strings.Contains(snippet, "page.New(") // the module page compiles it
	})
	for i, program := range build(t, snippets) {
		snippet := snippets[i]
		server := miniredis.RunT(t)
		output, stderr, err := run(t, program, server.Addr())
		for try := 1; try < 5 && (err != nil || output != printed(snippet)); try++ {
			server.FlushAll()
			output, stderr, err = run(t, program, server.Addr())
		}
		if err != nil || output != printed(snippet) {
			t.Errorf("%s\nprints\n%s\n%v\n%s", snippet, output, err, stderr)
		}
	}
}

// A newcomer who has no Redis yet sees why in the log of the first program. On a machine
// that is busy the reason may come too late, and the message does without.
func TestTheFirstProgramLogsThatNoRedisListens(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:6379"
	page := markdown.Read(t, "README.md")
	want := regexp.MustCompile("`(dial tcp " + address + ".*)`").FindStringSubmatch(string(page))
	if want == nil {
		t.Fatal("README.md does not say what the error is")
	}
	nobody := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	reason := strings.Replace(want[1], address, nobody, 1)
	program := build(t, page.Blocks("go")[:1])[0]
	redistest.Await(t, "the log says "+reason, func() bool {
		_, stderr, err := run(t, program, nobody)
		return err == nil && strings.Contains(stderr, "WARN priority: ") && strings.Contains(stderr, reason)
	})
}

// A stranger's first program is whole, and joins the fleet.
func TestTheFirstGoOfTheREADMEIsAProgram(t *testing.T) {
	t.Parallel()
	first := markdown.Read(t, "README.md").Blocks("go")[0]
	if !strings.HasPrefix(first, "package main\n") || !strings.Contains(first, "fleet.Join(") {
		t.Errorf("the first block is\n%s", first)
	}
}

// How long a flood is remembered is by each rule as the README says.
func TestTheRulesForgetAsTheREADMESays(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), new(memory.Store)
		alone := func(customer, document string) priority.Level { // a document when none is pending
			level := must(store.Submit(ctx, customer, document, 0))(t).Level
			if err := store.Done(ctx, customer, document, time.Second); err != nil {
				t.Fatal(err)
			}
			return level
		}
		var byCount, byLoad priority.Level
		for n := range 10 * 72 { // one document every 20 minutes, for ten days
			byCount, byLoad = must(store.Next(ctx, "steady"))(t).Level, alone("steady", fmt.Sprint(n))
			if last := byCount == 9; last != (n+1 >= 22) {
				t.Fatalf("by count, document %d is at level %d", n+1, byCount)
			}
			time.Sleep(20 * time.Minute)
		}
		if byLoad != 4 {
			t.Errorf("by load, one document every 20 minutes is at level %d", byLoad)
		}
		flood := documentIDs("flood", 10_000)
		for days, want := range map[time.Duration]priority.Level{8: 2, 9: 1} {
			must(store.NextN(ctx, "flooder", len(flood)))(t)
			must(store.SubmitN(ctx, "flooder", flood, nil))(t)
			if err := store.DoneN(ctx, "flooder", flood, time.Duration(len(flood))*time.Second); err != nil {
				t.Fatal(err)
			}
			if level := alone("flooder", "at once"); level != 5 {
				t.Errorf("by load, level %d after the flood", level)
			}
			time.Sleep(25*time.Minute + time.Second)
			if level := must(store.Next(ctx, "flooder"))(t).Level; level != 1 {
				t.Errorf("by count, level %d after the pause", level)
			}
			time.Sleep(days * 24 * time.Hour)
			if level := alone("flooder", "later"); level != want {
				t.Errorf("by load, level %d after %d days", level, days)
			}
		}
	})
	readme := string(markdown.Read(t, "README.md"))
	for _, says := range []string{"from the 22nd on", "at level 4;", "needs nine days"} {
		if !strings.Contains(readme, says) {
			t.Errorf("README.md does not say %q", says)
		}
	}
}

// Both tables of the README say what the default policy does.
func TestTheTablesOfTheREADMEAreTrue(t *testing.T) {
	t.Parallel()
	policy, store := priority.DefaultPolicy(), new(memory.Store)
	byCount := must(store.NextN(t.Context(), "by count", 300))(t)
	byLoad := must(store.SubmitN(t.Context(), "by load", customers(300), nil))(t)
	counts, levels := []string{fmt.Sprintf(">= %d", policy.Thresholds[0])}, []string(nil)
	var loads []string
	for i, threshold := range policy.Thresholds {
		counts = append(counts, fmt.Sprintf("< %d", threshold))
		loads = append(loads, fmt.Sprint(policy.Loads[i]))
	}
	for level := priority.First; level <= policy.Last(); level++ {
		levels = append(levels, fmt.Sprintf("**%d**", level))
	}
	backwards := func(cells []string) []string {
		cells = slices.Clone(cells)
		slices.Reverse(cells)
		return cells
	}
	readme := string(markdown.Read(t, "README.md"))
	for _, table := range [][]string{
		append([]string{"count"}, backwards(counts)...),
		append([]string{"**level**"}, backwards(levels)...),
		append([]string{"documents"}, backwards(documentsByLevel(byCount))...),
		append(append([]string{"load, up to"}, loads...), "more"),
		append([]string{"**level**"}, levels...),
		append([]string{"documents"}, documentsByLevel(byLoad)...),
	} {
		if row := "\n| " + strings.Join(table, " | ") + " |\n"; !strings.Contains(readme, row) {
			t.Errorf("README.md has no row%s", row)
		}
	}
}

// documentsByLevel says which documents got each level: "1–3", "4–5" … "22 and on".
func documentsByLevel(decisions []priority.Decision) (cells []string) {
	for first := 0; first < len(decisions); {
		next := first
		for next < len(decisions) && decisions[next].Level == decisions[first].Level {
			next++
		}
		cell := fmt.Sprintf("%d–%d", first+1, next)
		switch {
		case next == len(decisions):
			cell = fmt.Sprintf("%d and on", first+1)
		case next == first+1:
			cell = fmt.Sprint(next)
		}
		cells = append(cells, cell)
		first = next
	}
	return cells
}

// The lines after "$" of every console block are run in order, with a redis-cli
// that talks to a server of the test's own, and print what the page says.
func TestCommandsPrintWhatTheirPagesSay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, port, _ := net.SplitHostPort(server.Addr)
	redisCLI := redistest.Find(t, "redis-cli", "redis-tools")
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s -p %s --no-raw \"$@\"\n", redisCLI, port)
	if err := os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		for _, block := range markdown.Read(t, page).Blocks("console") {
			for _, command := range strings.Split("\n"+block, "\n$ ")[1:] {
				line, want, _ := strings.Cut(command, "\n")
				cmd := exec.Command("sh", "-c", line)
				cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
				got, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s: %s: %v\n%s", page, line, err, got)
				}
				if strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
					t.Errorf("%s: %s prints\n%s\nand not\n%s", page, line, got, want)
				}
			}
		}
	}
}

func TestTheProgramsOfTheREADMEAreThere(t *testing.T) {
	t.Parallel()
	for _, match := range regexp.MustCompile(`go run (\./[a-z/]+)`).FindAllStringSubmatch(string(markdown.Read(t, "README.md")), -1) {
		if _, err := os.Stat(filepath.Join(match[1], "main.go")); err != nil {
			t.Errorf("README.md: %s: %v", match[0], err)
		}
	}
}

// The least versions that the README names are in the table of docs/redis.md, which
// .ci/servers writes, and no test failed on any server of it.
func TestTheServersOfTheREADMEAreTested(t *testing.T) {
	t.Parallel()
	tested := make(map[string]bool)
	rows := regexp.MustCompile(`(?m)^\| (redis|valkey)-(\d+\.\d+)\S* \| \d+ \| \d+ \| (\d+) \|$`)
	for _, row := range rows.FindAllStringSubmatch(string(markdown.Read(t, "docs/redis.md")), -1) {
		tested[row[1]+" "+row[2]] = true
		if failed := row[3]; failed != "0" {
			t.Errorf("%s %s: %s tests failed", row[1], row[2], failed)
		}
	}
	named := regexp.MustCompile(`(Redis|Valkey) (\d+\.\d+)`).FindAllStringSubmatch(string(markdown.Read(t, "README.md")), -1)
	if len(named) != 2 {
		t.Errorf("README.md names the servers %v", named)
	}
	for _, server := range named {
		if name := strings.ToLower(server[1]) + " " + server[2]; !tested[name] {
			t.Errorf("docs/redis.md has no %s", name)
		}
	}
}

// What the pages say that a newcomer needs is what the modules and packages require.
func TestThePagesNameTheVersionsThatAreNeeded(t *testing.T) {
	t.Parallel()
	for _, needed := range []struct{ page, says, file, requires string }{
		{"README.md", `With Go (\d+\.\d+) or later`, "go.mod", `\ngo (\d+\.\d+)`},
		{"README.md", `go-redis v(\d+\.\d+) or later`, "go.mod", `/go-redis/v9 v(\d+\.\d+)`},
		{"README.md", `modules\s+for queues need Go (\d+\.\d+)`, "queue/asynq/go.mod", `\ngo (\d+\.\d+)`},
		{"docs/start.md", `With Go (\d+\.\d+) or later`, "queue/asynq/go.mod", `\ngo (\d+\.\d+)`},
		{"docs/start.md", `With Python (\d+\.\d+) or later`, "clients/python/pyproject.toml", `requires-python = ">=(\d+\.\d+)"`},
		{"docs/start.md", `With Node.js (\d+\.\d+) or later`, "clients/nodejs/package.json", `"node": ">=(\d+\.\d+)"`},
	} {
		version := func(file, pattern string) string {
			found := regexp.MustCompile(pattern).FindStringSubmatch(string(must(os.ReadFile(file))(t)))
			if found == nil {
				t.Fatalf("%s does not say %s", file, pattern)
			}
			return found[1]
		}
		if said, required := version(needed.page, needed.says), version(needed.file, needed.requires); said != required {
			t.Errorf("%s names %s for %q, and %s requires %s", needed.page, said, needed.says, needed.file, required)
		}
	}
}

// The documented user can do all that a store does on one server, and nothing
// else: no other command, and no other key.
func TestTheDocumentedRightsAreEnoughAndNoMore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rights := grant(t, server)
	client := storesUser(t, server)
	if err := useEveryRight(t, server, client); err != nil {
		t.Error(err)
	}
	if err := useEveryRight(t, server, autoPipeline(t, client)); err != nil {
		t.Errorf("AutoPipeliner: %v", err)
	}

	other := openStore(t, client, &priority.RedisOptions{Prefix: "another", Timeout: -1})
	for name, call := range everyCall(t, other, "acme", "invoice-1") {
		if err := call(); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "can't access") {
			t.Errorf("%s of another prefix: %v", name, err)
		}
	}
	allowed := []string{"auth", "hello", "reset", "quit"} // every user may: they begin or end a connection
	for _, right := range rights {
		allowed = append(allowed, strings.TrimPrefix(right, "+"))
	}
	admin := server.Client()
	if majorVersion(t, admin) < 7 {
		return // it has no ACL DRYRUN
	}
	for _, name := range must(admin.Do(t.Context(), "command", "list").StringSlice())(t) {
		info := must(admin.Do(t.Context(), "command", "info", name).Slice())(t)
		arity := int(info[0].([]any)[1].(int64))
		dryRun := []any{"acl", "dryrun", "store"}
		for word := range strings.SplitSeq(name, "|") {
			dryRun = append(dryRun, word)
		}
		for len(dryRun)-3 < max(arity, -arity) {
			dryRun = append(dryRun, "priority:{acme}:count")
		}
		answer := admin.Do(t.Context(), dryRun...)
		if answer.Err() == nil && answer.Val() == "OK" && !slices.Contains(allowed, name) {
			t.Errorf("the user may call %s", name)
		}
	}
}

// Without any one of the documented rights something fails.
func TestEachDocumentedRightIsNeeded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := storesUser(t, server)
	for _, right := range grant(t, server) {
		grant(t, server, "-"+right[1:])
		if err := useEveryRight(t, server, client); err == nil {
			t.Errorf("everything works without %s", right)
		}
		grant(t, server)
	}
}

func TestTheDocumentedRightsAreEnoughOnACluster(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile("On a Redis Cluster add `([^`]*)` to each").FindStringSubmatch(string(markdown.Read(t, "docs/redis.md")))
	if line == nil {
		t.Fatal("docs/redis.md does not say what a cluster needs")
	}
	cluster := redistest.StartCluster(t, 3)
	for _, node := range cluster.Masters {
		grant(t, node, strings.Fields(line[1])...)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: "store", Password: "secret"})
	defer client.Close()
	store := openStore(t, client, patient)
	if _, err := store.NextEach(t.Context(), customers(10)); err != nil {
		t.Error(err)
	}
	for name, call := range everyCall(t, store, "acme", "invoice-1") {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	slot := int(cluster.Client().ClusterKeySlot(t.Context(), store.Key("acme")).Val())
	owner := slot * 3 / 16384
	cluster.MoveSlot(slot, cluster.Masters[owner], cluster.Masters[(owner+1)%3], func() { // now and then ASK
		if _, err := store.Next(t.Context(), "acme"); err != nil {
			t.Errorf("Next while the slot moves: %v", err)
		}
	})
	for _, node := range cluster.Masters {
		redistest.WantNothingRefused(t, node.Client())
	}
}

func TestAnotherDatabaseNeedsTheRightToSelectIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "store", Password: "secret", DB: 1})
	defer client.Close()
	store := openStore(t, client, patient)
	grant(t, server)
	if _, err := store.Next(t.Context(), "acme"); err == nil || !strings.Contains(err.Error(), "select") {
		t.Errorf("without the right: %v", err)
	}
	grant(t, server, "+select")
	if _, err := store.Next(t.Context(), "acme"); err != nil {
		t.Error(err)
	}
}

// grant makes the user that docs/redis.md documents for a store, with further rules, and
// returns the documented rights.
func grant(t *testing.T, server *redistest.Server, further ...string) (rights []string) {
	t.Helper()
	keys, rights := markdown.Read(t, "docs/redis.md").Rights(t, "store")
	args := []any{"ACL", "SETUSER", "store", "reset", "on", ">secret"}
	for _, rule := range slices.Concat(keys, rights, further) {
		args = append(args, rule)
	}
	if err := server.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	return rights
}

// storesUser is a client of the documented user.
func storesUser(t *testing.T, server *redistest.Server) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "store", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// useEveryRight does all that a store can do, beginning without a key and without
// a script in the server's cache, and returns what did not work.
func useEveryRight(t *testing.T, server *redistest.Server, client priority.RedisClient) error {
	t.Helper()
	admin := server.Client()
	if err := errors.Join(admin.FlushAll(t.Context()).Err(), admin.ScriptFlush(t.Context()).Err()); err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		store := openStore(t, client, &priority.RedisOptions{Policy: priority.Policy{ResetMode: mode}, Timeout: -1})
		do := func(names ...string) {
			calls := everyCall(t, store, "acme", "invoice-1")
			for _, name := range names {
				if err := calls[name](); err != nil {
					errs = append(errs, fmt.Errorf("%v, %s: %w", mode, name, err))
				}
			}
		}
		do("Next", "Next", "NextN", "NextEach", "Submit", "SubmitN", "Peek")

		// A lease that has ended is cleared away by the next Submit, and a count
		// that has no room left is put back and reported.
		if err := errors.Join(
			admin.ZAdd(t.Context(), store.PendingKey("acme"), redis.Z{Score: 1, Member: "ended"}).Err(),
			admin.Set(t.Context(), store.Key("full"), "-999999999999999", time.Minute).Err(),
		); err != nil {
			t.Fatal(err)
		}
		do("Submit")
		if _, err := store.SubmitN(t.Context(), "acme", []string{"invoice-1", "invoice-2"}, nil); err != nil {
			errs = append(errs, fmt.Errorf("%v, SubmitN of two: %w", mode, err))
		}
		do("Done", "DoneN", "Reset")
		if _, err := store.Next(t.Context(), "full"); !errors.Is(err, priority.ErrCorruptCount) {
			errs = append(errs, fmt.Errorf("%v, Next of a count that is full: %w", mode, err))
		}
	}
	return errors.Join(errs...)
}

// printed returns what a snippet claims to print.
func printed(snippet string) string {
	var out strings.Builder
	for line := range strings.Lines(snippet) {
		if _, claim, ok := strings.Cut(line, "// prints: "); ok {
			out.WriteString(claim)
		}
	}
	return out.String()
}

// build makes programs of snippets, whose argument is where Redis is. A snippet that is a
// whole program is built as it is; of the others, one program of this module has them all.
func build(t *testing.T, snippets []string) (programs []command) {
	t.Helper()
	const address = `"localhost:6379"`
	together := filepath.Join(t.TempDir(), "program")
	var names, functions strings.Builder
	for i, snippet := range snippets {
		if rest, whole := strings.CutPrefix(snippet, "package main\n"); whole {
			program := filepath.Join(t.TempDir(), "program")
			compile(t, "package main\n\nimport arguments \"os\"\n"+strings.ReplaceAll(rest, address, "arguments.Args[1]"), program)
			programs = append(programs, command{program})
			continue
		}
		programs = append(programs, command{together, fmt.Sprint(i)})
		fmt.Fprintf(&names, "\t\t\"%d\": snippet%d,\n", i, i)
		fmt.Fprintf(&functions, "\nfunc snippet%d() {\n%s}\n", i, strings.ReplaceAll(snippet, address, "os.Args[2]"))
	}
	if names.Len() > 0 {
		compile(t, withImports("func main() {\n\tmap[string]func(){\n"+names.String()+"\t}[os.Args[1]]()\n}\n"+functions.String()), together)
	}
	return programs
}

// command is a program and its first arguments.
type command []string

// withImports makes a whole program of declarations.
func withImports(declarations string) string {
	known := []string{
		"context", "errors", "fmt", "log", "log/slog", "os", "time", "github.com/redis/go-redis/v9", "github.com/go-redis/redis_rate/v10",
		module, module + "/control", module + "/fallback", module + "/fleet", module + "/memory", module + "/observe", module + "/queue",
	}
	var imports strings.Builder
	for _, imported := range known {
		name := path.Base(strings.TrimSuffix(imported, "/v10"))
		if imported == "github.com/redis/go-redis/v9" {
			name = "redis"
		}
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(declarations) {
			fmt.Fprintf(&imports, "import %q\n", imported)
		}
	}
	return "package main\n\n" + imports.String() + declarations
}

func compile(t *testing.T, text, program string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
}

func run(t *testing.T, program command, address string) (stdout, stderr string, err error) {
	t.Helper()
	var outputs [2]bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program[0], append(slices.Clone(program[1:]), address)...)
	cmd.Stdout, cmd.Stderr = &outputs[0], &outputs[1]
	err = cmd.Run()
	return outputs[0].String(), outputs[1].String(), err
}
