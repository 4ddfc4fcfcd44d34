package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/customer"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// TestMain runs the program itself where a terminal's shell calls this binary. A program
// that a test starts without naming a Redis is refused.
func TestMain(m *testing.M) {
	if os.Getenv("PRIORITYCTL_TEST_RUN") != "" {
		main()
		return
	}
	if err := os.Setenv(urlVariable, "not named by the test"); err != nil {
		panic(err)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of members: no part of what is tested
	_ = flag.Set("test.parallel", "6")             // they wait more than they compute; -parallel says otherwise
	os.Exit(m.Run())
}

// secret is the password of all tests. Nothing may print it.
const secret = "hush-hush"

// operator runs the program.
type operator struct {
	*testing.T
	environment
	flags []string // that every command gets
	stdin string
	dir   string // where a shell runs the commands
}

// alone returns an operator who has set no variable and has no Redis.
func alone(t *testing.T) operator {
	return operator{T: t, environment: environment{getenv: func(string) string { return "" }, terminal: terminalOf, keys: keysOf, connect: insight.Connect}}
}

// operatorOn returns an operator whose flags name a Redis.
func operatorOn(t *testing.T, flags ...string) operator {
	o := alone(t)
	o.flags = append([]string{"-timeout", "5s"}, flags...) // as the machine may be slow
	return o
}

// started starts a Redis.
func started(t *testing.T) (operator, *redis.Client) {
	server := redistest.Start(t)
	return operatorOn(t, "-redis", "redis://"+server.Addr), server.Client()
}

// userOf makes a user of a Redis, with no other rights than these.
func userOf(t *testing.T, server *redistest.Server, name, rights string) operator {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "on", ">" + secret, "resetkeys", "-@all"}
	for right := range strings.FieldsSeq(rights) {
		args = append(args, right)
	}
	if err := server.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	return operatorOn(t, "-redis", "redis://"+server.Addr, "-user", name).with(passwordVariable, secret)
}

// with returns the operator with an environment variable.
func (o operator) with(variable, value string) operator {
	others := o.getenv
	o.getenv = func(name string) string {
		if name == variable {
			return value
		}
		return others(name)
	}
	return o
}

// onTerminal returns the operator at a terminal.
func (o operator) onTerminal() operator {
	o.terminal = func(any) (int, int, bool) { return 80, 24, true }
	return o
}

// reading returns the operator with something on the standard input.
func (o operator) reading(stdin string) operator {
	o.stdin = stdin
	return o
}

// ask runs a command and looks for the password in what it prints.
func (o operator) ask(command string, args ...string) (status int, stdout, stderr string) {
	o.Helper()
	args = slices.Concat([]string{command}, o.flags, args)
	var out, errs strings.Builder
	status = run(o.Context(), o.environment, args, strings.NewReader(o.stdin), &out, &errs)
	stdout, stderr = out.String(), errs.String()
	if strings.Contains(stdout+stderr, secret) {
		o.Errorf("%q prints the password:\n%s%s", args, stdout, stderr)
	}
	if strings.Count(stderr, "\n") > strings.Count(stderr, "priorityctl: ") {
		o.Errorf("%q: an error of more than one line:\n%s", args, stderr)
	}
	return status, stdout, stderr
}

// ok runs a command that must succeed without a word on stderr.
func (o operator) ok(command string, args ...string) string {
	o.Helper()
	status, stdout, stderr := o.ask(command, args...)
	if status != 0 || stderr != "" {
		o.Fatalf("%s %q: exit status %d, stderr %q, stdout\n%s", command, args, status, stderr, stdout)
	}
	return stdout
}

// refused runs a command that must fail. A wrong call prints nothing but why.
func (o operator) refused(status int, want, command string, args ...string) {
	o.Helper()
	got, stdout, stderr := o.ask(command, args...)
	if got != status || status == exitUsage && stdout != "" || !strings.Contains(stderr, want) || !strings.HasPrefix(stderr, "priorityctl: ") {
		o.Errorf("%s %q: exit status %d, stdout %q, stderr %q; want %d and %q", command, args, got, stdout, stderr, status, want)
	}
}

// count counts documents of customers.
func count(t *testing.T, client redis.UniversalClient, documents map[string]int) {
	t.Helper()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	for customer, n := range documents {
		if _, err := store.NextN(t.Context(), customer, n); err != nil {
			t.Fatal(err)
		}
	}
}

// submit submits documents of one customer.
func submit(t *testing.T, store priority.Store, customer string, documents int) {
	t.Helper()
	all := make([]string, documents)
	for i := range all {
		all[i] = fmt.Sprint("document ", i)
	}
	if _, err := store.SubmitN(t.Context(), customer, named.Documents(all...)); err != nil {
		t.Fatal(err)
	}
}

// file writes a file of a name.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// objects are JSON objects, one a line.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(text) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, object)
	}
	return all
}

// holds checks that a text has all of these, whatever the space between words.
func holds(t *testing.T, text string, wants ...string) {
	t.Helper()
	words := strings.Join(strings.Fields(text), " ")
	for _, want := range wants {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// join makes a member of the fleet, whose reports are in Redis when it returns.
func join(t *testing.T, client *redis.Client, name string) *fleet.Member {
	t.Helper()
	return joinWith(t, client, name, priority.RedisOptions{})
}

func joinWith(t *testing.T, client *redis.Client, name string, options priority.RedisOptions) *fleet.Member {
	t.Helper()
	options.Timeout = time.Minute
	member, err := fleet.Join(client, &fleet.Options{Name: name, Store: options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = member.Close(context.WithoutCancel(t.Context())) })
	redistest.Await(t, name+" reports", func() bool {
		reports, err := fleet.Read(t.Context(), client, "")
		return err == nil && slices.ContainsFunc(reports, func(r fleet.Report) bool { return r.Name == name })
	})
	return member
}

// found is a check of status -json.
type found struct {
	Check     string
	Status    insight.Outcome
	Found     string
	Remedy    string
	Customers []customer.Name
	Workers   []string
	Documents int64
}
