package main

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

// effect is what a command line does, beside what it prints.
type effect struct {
	status   int
	says     string   // on stderr
	lists    []string // the customers that it prints; nil: it is not looked at
	forgets  []string
	override []string // who gets one, or another
	ends     []string // whose override ends
	rules    bool
}

// effects has what every command line does that does more than print. The first one
// that is in the line counts.
var effects = []struct {
	in string
	effect
}{
	{"list -level 9 -json | priorityctl reset", effect{forgets: heavy}},
	{"list -corrupt -json | priorityctl reset", effect{forgets: corrupt}},
	{"list -level 9 -json | priorityctl override set", effect{override: heavy}},
	{"list -level 9 -json | priorityctl get", effect{lists: heavy}},
	{"list -level 9", effect{lists: heavy}},
	{"list -level 8,9", effect{lists: heavy}},
	{"list -corrupt", effect{lists: corrupt}},
	{"list -count-below -1000", effect{lists: []string{"bulk\nbulk"}}},
	{"list -limit 1000", effect{lists: slices.Concat(heavy, light, corrupt, []string{"acme", "clinic", "bulk"})}},
	{"forget -yes -from left.json", effect{forgets: []string{"first"}}},
	{"forget -yes acme", effect{forgets: []string{"acme"}, ends: []string{"acme"}}},
	{"forget acme", effect{status: 2, says: "give -yes"}},
	{"reset acme", effect{status: 2, says: "give -yes"}}, // nobody can be asked here
	{"override list -json >overrides", effect{}},
	{"override set -from overrides", effect{override: []string{"acme", "o'neil\n"}}},
	{"override set acme", effect{override: []string{"acme"}}},
	{"override end acme", effect{ends: []string{"acme"}}},
	{"policy apply", effect{rules: true}},
	{"policy rollback", effect{rules: true}},
	{"policy withdraw", effect{rules: true}},
}

// The customers of the Redis that the command lines are run on. Beside those whose names
// a shell, a terminal or a line would change there are those who would be met instead.
var (
	heavy = []string{ // at level 9
		"a\nb", "split me", "$(touch pwned)", "`touch pwned`", "; touch pwned", "'", `"`, `\`, "-yes", "--", "-json", "*",
		"\xff\xfe", "}%", "\x00nul", "\x1b[2J", "null", "line\n", "  blanks  ", "it\r", "\u202eodd", "bulk\nbulk",
	}
	light = []string{
		"a", "b", "split", "me", "touch", "pwned", "touch pwned", "yes", "json", "\ufffd", "\ufffd\ufffd", "%", "}", "nul", "line", "blanks", "it", "odd",
		"first", "bakery", "o'neil\n", "o'neil", "list", "word",
	}
	corrupt = []string{"list\nlist", "word\xff", "-corrupt", "pending"}
)

// fillHostile makes a fleet of them, with all that operators can set.
func fillHostile(t *testing.T, client *redis.Client) {
	t.Helper()
	client.FlushAll(t.Context())
	documents := map[string]int{"acme": 40, "bulk": 1}
	for _, customer := range heavy {
		documents[customer] = 30
	}
	for _, customer := range light {
		documents[customer] = 2
	}
	documents["bulk\nbulk"] = 1100
	count(t, client, documents)
	submit(t, client, "clinic", 11)
	client.RPush(t.Context(), "priority:{list\nlist}:count", "-1")
	client.Set(t.Context(), "priority:{word\xff}:count", "x", 0)
	client.Set(t.Context(), "priority:{-corrupt}:count", "1.5", 0)
	client.Set(t.Context(), "priority:{pending}:pending", "x", 0)

	admin, err := control.NewAdmin(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	change := control.Change{By: "mary", Why: "x"}
	made := func(version int64, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		change.Replaces = version
	}
	rules := insight.RulesOf(priority.DefaultPolicy())
	for n := range 18 { // all differ, so that a rollback changes something
		rules.Policy.ResetInterval = time.Duration(n+8) * time.Minute
		made(admin.Apply(t.Context(), rules, change))
	}
	change.Replaces = 0
	made(admin.SetOverride(t.Context(), "acme", priority.Override{Earliest: 2, Latest: 2}, time.Hour, change))
	change.Replaces = 0
	made(admin.SetOverride(t.Context(), "o'neil\n", priority.Override{Latest: 4}, time.Hour, change))
}

// held is all that a command line could have changed.
type held struct {
	keys      map[string]string // except the operators' keys
	overrides map[string]int64  // their versions
	rules     int64
}

func holding(t *testing.T, client *redis.Client) held {
	t.Helper()
	h := held{keys: make(map[string]string), overrides: make(map[string]int64)}
	keys := client.Keys(t.Context(), "*").Val()
	dumps := make([]*redis.StringCmd, len(keys))
	pipeline := client.Pipeline()
	for i, key := range keys {
		dumps[i] = pipeline.Dump(t.Context(), key)
	}
	if _, err := pipeline.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		if !strings.HasPrefix(key, "priority:{control}:") && !strings.HasSuffix(key, "}:override") {
			h.keys[key] = dumps[i].Val()
		}
	}
	admin, err := control.NewAdmin(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	overrides, err := admin.Overrides(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, held := range overrides {
		if !held.InForce {
			t.Errorf("the override of %q is not in force", held.Customer)
		}
		h.overrides[held.Customer] = held.Version
	}
	settings, err := admin.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.rules = versionOf(settings.Rules)
	return h
}

// differing are the names whose values are not the same in both.
func differing[V comparable](a, b map[string]V) []string {
	var names []string
	for name := range a {
		if value, ok := b[name]; !ok || value != a[name] {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// check compares what there is afterwards with what there should be.
func (h held) check(t *testing.T, line string, want effect, after held) {
	t.Helper()
	sorted := func(customers ...string) []string { return slices.Sorted(slices.Values(customers)) }
	var keys []string
	for _, customer := range want.forgets {
		end := "}:count"
		if customer == "pending" {
			end = "}:pending"
		}
		keys = append(keys, "priority:{"+strings.NewReplacer("%", "%25", "}", "%7D").Replace(customer)+end)
	}
	if got := differing(h.keys, after.keys); !slices.Equal(got, sorted(keys...)) {
		t.Errorf("%s\nchanges the keys\n%q\nand not\n%q", line, got, sorted(keys...))
	}
	if got := differing(h.overrides, after.overrides); !slices.Equal(got, sorted(slices.Concat(want.override, want.ends)...)) {
		t.Errorf("%s\nchanges the overrides of\n%q", line, got)
	}
	for _, customer := range want.ends {
		if after.overrides[customer] != 0 {
			t.Errorf("%s\ndoes not end the override of %q", line, customer)
		}
	}
	if (h.rules != after.rules) != want.rules {
		t.Errorf("%s\nmakes of the policy's version %d %d", line, h.rules, after.rules)
	}
}

// Every command line that a help or a page prints is run by a shell, on customers with
// hostile names, and does what it says to those whom it names, and nothing to others.
func TestEveryPrintedCommandLineMeetsWhomItNames(t *testing.T) {
	t.Parallel()
	bin := shellCommands(t)
	lines := printedLines(t)
	if len(lines) < 60 {
		t.Errorf("only %d command lines were found", len(lines))
	}
	met := make(map[string]bool)
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		var want effect
		for _, known := range effects {
			if strings.Contains(line, known.in) {
				want, met[known.in] = known.effect, true
				break
			}
		}
		t.Run("", func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := server.Client()
			fillHostile(t, client)
			before := holding(t, client)
			dir := workingFiles(t, client)
			status, stdout, stderr := inShell(t, bin, dir, "redis://"+server.Addr, line)
			if status != want.status || (want.says == "") != (stderr == "") || !strings.Contains(stderr, want.says) {
				t.Errorf("%s\n(of %s)\nexit status %d, stderr %q, stdout\n%.500s", line, lines[line], status, stderr, stdout)
			}
			if want.lists != nil {
				checkListed(t, line, stdout, want.lists)
			}
			before.check(t, line, want, holding(t, client))
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Errorf("%s\nruns a customer's name", line)
			}
		})
	}
	for _, known := range effects {
		if !met[known.in] {
			t.Errorf("no help and no page prints %q", known.in)
		}
	}
}

// What get says to type, where a key is corrupt, resets that customer and nobody else.
func TestTheRemedyOfACorruptKeyMeetsItsCustomer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	bin := shellCommands(t)
	const prefix = "team's"
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: prefix, Timeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	o := operatorOn(t, "-redis", "redis://"+server.Addr)
	for _, other := range append(slices.Concat(heavy, light), "a b", "h", "it's") {
		client.Set(t.Context(), store.Keys(other).Count, "-5", 0)
	}
	for _, customer := range slices.Concat(heavy, corrupt, []string{"-", "-h", "~", "a'b\nc", "Müller & Co", "100 %"}) {
		client.Del(t.Context(), store.Keys(customer).Count)
		client.RPush(t.Context(), store.Keys(customer).Count, "x")
		before := holding(t, client)
		object := fmt.Sprintf(`{"customer_base64":%q}`, base64.StdEncoding.EncodeToString([]byte(customer)))
		_, _, stderr := o.reading(object).ask("get", "-from", "-", "-prefix", prefix)
		_, remedy, _ := strings.Cut(stderr, "to forget all that is known of the customer: ")
		remedy, _, _ = strings.Cut(remedy, "; to remove only this key: ")
		if remedy == "" || strings.Trim(remedy, "\x1b\n") != remedy {
			t.Errorf("%q: get says %q", customer, stderr)
		}
		// Nobody can be asked here.
		line := strings.Replace(remedy, "priorityctl reset ", "priorityctl reset -yes ", 1)
		if status, stdout, stderr := inShell(t, bin, t.TempDir(), "redis://"+server.Addr, line); status != 0 || stderr != "" {
			t.Errorf("%s\nexit status %d, stdout %q, stderr %q", line, status, stdout, stderr)
		}
		if got := differing(before.keys, holding(t, client).keys); !slices.Equal(slices.DeleteFunc(got, func(key string) bool { return strings.Contains(key, "{control}") }), []string{store.Keys(customer).Count}) {
			t.Errorf("%s\nfor %q changes %q", line, customer, got)
		}
		client.Set(t.Context(), store.Keys(customer).Count, "-5", 0)
	}
}

// checkListed compares the customers of an output with those that it should have.
func checkListed(t *testing.T, line, stdout string, want []string) {
	t.Helper()
	var got, wanted []string
	for _, customer := range want {
		wanted = append(wanted, insight.Shown(customer))
	}
	at := -1 // where the last heading of a list has the customers
	for text := range strings.Lines(stdout) {
		text = strings.TrimSuffix(text, "\n")
		var name insight.Name
		if err := json.Unmarshal([]byte(text), &name); err == nil {
			got = append(got, insight.Shown(name.Exact()))
		} else if customer, ok := strings.CutPrefix(text, "customer  "); ok {
			got = append(got, customer)
		} else if strings.HasPrefix(text, "NEXT  ") {
			at = strings.Index(text, "CUSTOMER")
		} else if at >= 0 {
			got = append(got, strings.TrimSuffix(text[at:], ", overridden"))
		}
	}
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("%s\nlists\n%q\nand not\n%q", line, got, wanted)
	}
}

// printedLines returns every command line, and where it is printed.
func printedLines(t *testing.T) map[string]string {
	t.Helper()
	lines := make(map[string]string)
	add := func(line, source string) {
		line = comment.ReplaceAllString(continued.ReplaceAllString(strings.TrimSpace(line), " "), "")
		if line = strings.ReplaceAll(line, "go run ./cmd/priorityctl", "priorityctl"); line != "priorityctl get" { // is only spoken of
			lines[line] = source
		}
	}
	var ofHelp func(command *cobra.Command)
	ofHelp = func(command *cobra.Command) {
		for _, line := range regexp.MustCompile(`(?m)^ +(priorityctl (?:.*\\\n)*.*)`).FindAllString(command.Long, -1) {
			add(described.ReplaceAllString(continued.ReplaceAllString(strings.TrimSpace(line), " "), ""), command.CommandPath()+" -help")
		}
		for _, child := range command.Commands() {
			if child.Name() != "completion" { // whose lines are of cobra, for bash, zsh and others
				ofHelp(child)
			}
		}
	}
	ofHelp(newRoot())
	pages := []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md"}
	for _, folder := range []string{"../../docs/*.md", "../../docs/*/*.md", "../../examples/*/*.md"} {
		found, err := filepath.Glob(folder)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text := markdown.Read(t, page)
		for _, language := range []string{"sh", "console", "text"} {
			for _, line := range wholeLine.FindAllString(strings.Join(text.Blocks(language), ""), -1) {
				typed, prompted := strings.CutPrefix(line, "$ ")
				if (prompted || language == "sh") && calling.MatchString(typed) {
					add(typed, page)
				}
			}
		}
		for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text.Prose(), -1) {
			if typed := strings.Join(strings.Fields(strings.ReplaceAll(span[1], `\|`, "|")), " "); calling.MatchString(typed) {
				add(typed, page)
			}
		}
	}
	return lines
}

var (
	wholeLine = regexp.MustCompile(`(?:.*\\\n)*.+`)
	calling   = regexp.MustCompile(`(^|[|;&] *)(priorityctl |go run \./cmd/priorityctl |export PRIORITY_)`)
	continued = regexp.MustCompile(`\s*\\\n\s*`)
	comment   = regexp.MustCompile(`\s+#\s.*$`)
	// described is what stands behind a command in a help, in a column of its own.
	described = regexp.MustCompile(`\s{2,}[^\s#].*$`)
)

// shellCommands makes a directory for the path of a shell, in which priorityctl is this
// program. What would run for minutes is made small.
func shellCommands(t *testing.T) string {
	t.Helper()
	script := "#!/bin/sh\n" + `case "$1" in
serve) set -- "$@" -listen 127.0.0.1:0; echo $$ >serve.pid ;;
esac
` + fmt.Sprintf("exec '%s' \"$@\"\n", installed(t))
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "priorityctl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return bin
}

// workingFiles makes a directory with the files that command lines read.
func workingFiles(t *testing.T, client *redis.Client) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("left.json", `{"customer":"first"}`)
	write("gold.json", `{"reset_interval_ms": 60000}`)
	for _, name := range []string{"team.json", "wide.json", "wider.json"} {
		write(name, `{"thresholds": [-3, -30]}`)
	}
	trace := "0,a,1000\n0,a,1000\n500,\"$(touch pwned)\",\n600,b,10\n700,a,3000\n900,b,10\n"
	write("trace.csv", trace)
	file, err := os.Create(filepath.Join(dir, "trace.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	zipped := gzip.NewWriter(file)
	if _, err := zipped.Write([]byte(trace)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(zipped.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	_, overrides, _ := operatorOn(t, "-redis", "redis://"+client.Options().Addr).ask("override", "list", "-json")
	write("overrides", overrides)
	_, exported, _ := operatorOn(t, "-redis", "redis://"+client.Options().Addr).ask("control", "export")
	write("control.json", exported)
	return dir
}

// inShell runs a line until it ends, or serves.
func inShell(t *testing.T, bin, dir, url, line string) (status int, stdout, stderr string) {
	t.Helper()
	line = strings.NewReplacer("redis://localhost:6379", url, "-redis URL", "-redis "+url, "COMMAND", "get").Replace(line)
	notTheDefault(t, line)
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	command := exec.CommandContext(ctx, "sh", "-c", line)
	command.Dir = dir
	command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), urlVariable+"="+url)
	var errs strings.Builder
	command.Stderr = &errs
	out := &ending{serves: func() {
		held, _ := os.ReadFile(filepath.Join(dir, "serve.pid"))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(held))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}}
	command.Stdout = out
	if err := command.Run(); ctx.Err() != nil {
		t.Fatalf("%s\ndoes not end: %v", line, err)
	}
	return command.ProcessState.ExitCode(), out.text.String(), errs.String()
}

// ending keeps what a command prints, and ends one that serves.
type ending struct {
	text   strings.Builder
	serves func()
}

func (e *ending) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "Ctrl-C ends it") {
		e.serves()
	}
	return e.text.Write(p)
}
