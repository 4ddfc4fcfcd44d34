package priority_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
)

// The code and the tests that docs/how-to/test.md shows are a package that passes.
func TestTheTestsToCopyPass(t *testing.T) {
	t.Parallel()
	snippets := markdown.Read(t, "docs/how-to/test.md").Blocks("go")
	if len(snippets) != 2 {
		t.Fatalf("the page has %d blocks", len(snippets))
	}
	dir := t.TempDir()
	code, tests := filepath.Join(dir, "upload.go"), filepath.Join(dir, "upload_test.go")
	for i, file := range []string{code, tests} {
		if err := os.WriteFile(file, []byte(snippets[i]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "test", "-v", code, tests).CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: Test") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

// So do those in Python, with the client of this repository.
func TestTheTestsToCopyPassInPython(t *testing.T) {
	t.Parallel()
	pythons := slices.DeleteFunc([]string{"python3", "/usr/bin/python3"}, func(python string) bool {
		return exec.Command(python, "-c", "import redis.asyncio").Run() != nil
	})
	if len(pythons) == 0 {
		redistest.Skip(t, "no python3 has redis: apt-get install python3-redis")
	}
	source := must(filepath.Abs("clients/python/src"))(t)
	copied := copyOf(t, markdown.Read(t, "docs/how-to/test.md").Blocks("python"), "test_level.py")
	command := exec.Command(pythons[0], "-B", "-m", "unittest", "-v", "test_level")
	command.Dir, command.Env = filepath.Dir(copied), append(os.Environ(), "PYTHONPATH="+source)
	if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "Ran 2 tests") {
		t.Errorf("%v\n%s", err, out)
	}
}

// And those in JavaScript.
func TestTheTestsToCopyPassInNode(t *testing.T) {
	t.Parallel()
	node := redistest.Find(t, "node", "nodejs")
	source := must(filepath.Abs("clients/nodejs"))(t)
	copied := copyOf(t, markdown.Read(t, "docs/how-to/test.md").Blocks("js"), "level.test.mjs")
	modules := filepath.Join(filepath.Dir(copied), "node_modules")
	if err := os.Mkdir(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(source, filepath.Join(modules, "docpriority")); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(node, "--test", copied)
	command.Dir = filepath.Dir(copied)
	if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "pass 2") {
		t.Errorf("%v\n%s", err, out)
	}
}

// copyOf writes the one snippet that there is into a file in a folder of its own.
func copyOf(t *testing.T, snippets []string, name string) string {
	t.Helper()
	if len(snippets) != 1 {
		t.Fatalf("the page has %d blocks", len(snippets))
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(snippets[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// What a server holds for customers is within a tenth of the formula of
// docs/production.md, or less.
func TestCustomersTakeNoMoreMemoryThanThePageSays(t *testing.T) {
	t.Parallel()
	const many, pendingEach = 4000, 10
	server := redistest.Start(t)
	client := server.Client()
	used := func() int {
		t.Helper()
		info := must(client.Info(t.Context(), "memory").Result())(t)
		return must(strconv.Atoi(regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(info)[1]))(t)
	}
	store := openStore(t, client, patient)
	must(store.Submit(t.Context(), "customer-first", "document-first", 0))(t) // loads the script
	before := used()
	for i := range many {
		var ids []string
		for j := range pendingEach {
			ids = append(ids, fmt.Sprintf("document-%08d", j))
		}
		if _, err := store.SubmitN(t.Context(), fmt.Sprintf("customer-%06d", i), ids, nil); err != nil {
			t.Fatal(err)
		}
	}
	took, reckoned := used()-before, 0
	formula := regexp.MustCompile(`(?s)bytes = .*?\n\n`).FindString(string(markdown.Read(t, "docs/production.md")))
	for i, times := range regexp.MustCompile(`(\d+) ×`).FindAllStringSubmatch(formula, -1) {
		reckoned += must(strconv.Atoi(times[1]))(t) * [...]int{many, many, many, many * pendingEach}[i]
	}
	t.Logf("%d bytes, reckoned %d", took, reckoned)
	if took > reckoned+reckoned/10 {
		t.Errorf("Redis took %d bytes, more than the %d of the formula", took, reckoned)
	}
}

// The commands of docs/how-to/migrate-prefix.md take counts, and what operators have
// set, along, and nothing that would make a level worse.
func TestCountsMoveToAnotherPrefix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	options := *patient
	before := openStore(t, client, &options)
	options.Prefix = "documents"
	after := openStore(t, client, &options)
	moved := []string{"acme", "two words", "50% {off}", `a "quote" and \`, "łódź"}
	for _, customer := range moved {
		must(before.NextN(t.Context(), customer, 10))(t)
		must(before.SubmitN(t.Context(), customer, []string{"invoice-1", "invoice-2", "invoice-3"}, nil))(t)
	}
	admin := must(control.NewAdmin(client, nil))(t)
	must(admin.SetOverride(t.Context(), "acme", priority.Override{Earliest: 4, Latest: 4}, time.Hour, control.Change{By: "mary", Why: "a demo"}))(t)

	commands := markdown.Read(t, "docs/how-to/migrate-prefix.md").Blocks("sh")
	if len(commands) != 2 {
		t.Fatalf("the page has %d blocks of commands", len(commands))
	}
	shell(t, server, commands[0])
	for _, customer := range moved {
		old, moved := must(before.Peek(t.Context(), customer))(t), must(after.Peek(t.Context(), customer))(t)
		if moved.Count != old.Count || moved.Pending != 0 || moved.ResetIn > old.ResetIn || moved.ResetIn < old.ResetIn-time.Minute {
			t.Errorf("%q is moved from %+v to %+v", customer, old, moved)
		}
		lasts := client.PTTL(t.Context(), after.UsageKey(customer)).Val()
		if original := client.PTTL(t.Context(), before.UsageKey(customer)).Val(); lasts > original+time.Second || lasts < original-time.Minute {
			t.Errorf("the usage of %q lasts %v, not %v", customer, lasts, original)
		}
	}
	steered := must(control.New(client, &control.Options{Store: options}))(t)
	t.Cleanup(func() { _ = steered.Close(t.Context()) })
	if err := steered.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if decision := must(steered.Next(t.Context(), "acme"))(t); decision.Level != 4 || decision.Ruled == 4 {
		t.Errorf("the override does not hold: %+v", decision)
	}

	shell(t, server, commands[1])
	if left := client.Keys(t.Context(), "priority:{control}:*").Val(); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// shell runs commands with a redis-cli that talks to a server.
func shell(t *testing.T, server *redistest.Server, commands string) {
	t.Helper()
	redisCLI := redistest.Find(t, "redis-cli", "redis-tools")
	_, port, _ := strings.Cut(server.Addr, ":")
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s -p %s \"$@\"\n", redisCLI, port)
	if err := os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("sh", "-e", "-c", commands)
	command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", commands, err, out)
	}
}
