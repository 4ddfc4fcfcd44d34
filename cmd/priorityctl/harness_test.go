package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// scratch is a directory of all tests.
var scratch string

// TestMain runs the program itself where a terminal's shell calls this binary. A program
// that a test starts without naming a Redis is refused.
func TestMain(m *testing.M) {
	if os.Getenv("PRIORITYCTL_TEST_RUN") != "" {
		main()
		return
	}
	err := os.Setenv(urlVariable, "not named by the test")
	if err == nil {
		scratch, err = os.MkdirTemp("", "priorityctl")
	}
	if err != nil {
		panic(err)
	}
	_ = flag.Set("test.parallel", "6") // they wait more than they compute; -parallel says otherwise
	status := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(status)
}

// installed returns the path of the program as go install makes it.
func installed(t *testing.T) string {
	t.Helper()
	path, err := install()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var install = sync.OnceValues(func() (path string, err error) {
	command := exec.Command("go", "install", ".")
	command.Env = append(os.Environ(), "GOBIN="+scratch)
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install: %w\n%s", err, out)
	}
	return filepath.Join(scratch, "priorityctl"), nil
})

// secret is the password of all tests. Nothing may print it.
const secret = "hush-hush"

// operator runs the program.
type operator struct {
	*testing.T
	environment
	flags []string // behind every command
	stdin string
}

// alone returns an operator who has set no variable and has no Redis.
func alone(t *testing.T) operator {
	return operator{T: t, environment: environment{getenv: func(string) string { return "" }}}
}

// operatorOn returns an operator whose flags name a Redis.
func operatorOn(t *testing.T, flags ...string) operator {
	o := alone(t)
	o.flags = append([]string{"-timeout", "5s"}, flags...) // the machine may be slow
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

// reading returns the operator with something on the standard input.
func (o operator) reading(stdin string) operator {
	o.stdin = stdin
	return o
}

// ask runs a command and looks for the password in what it prints.
func (o operator) ask(command string, args ...string) (status int, stdout, stderr string) {
	o.Helper()
	args = slices.Concat([]string{command}, o.flags, args)
	notTheDefault(o.T, args...)
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

// told runs a command that must succeed without a word on stderr.
func (o operator) told(command string, args ...string) string {
	o.Helper()
	status, stdout, stderr := o.ask(command, args...)
	if status != 0 || stderr != "" {
		o.Fatalf("%s %q: exit status %d, stderr %q, stdout\n%s", command, args, status, stderr, stdout)
	}
	return stdout
}

// warned runs a command that must succeed with words on stderr.
func (o operator) warned(want, command string, args ...string) string {
	o.Helper()
	status, stdout, stderr := o.ask(command, args...)
	if status != 0 || !strings.Contains(stderr, want) {
		o.Errorf("%s %q: exit status %d, stderr %q, want %q; stdout\n%s", command, args, status, stderr, want, stdout)
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

var defaultPort = regexp.MustCompile(`:6379\b`)

// notTheDefault fails if arguments, such as those that documents show, name what may be
// somebody's own Redis.
func notTheDefault(t *testing.T, args ...string) {
	t.Helper()
	if words := strings.Join(args, " "); defaultPort.MatchString(words) {
		t.Fatalf("a Redis that no test has started: %s", words)
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

// submit submits documents of one customer, whose documents take 5.2 s from Submit
// to Done on average and cost 1.4 times as much as others.
func submit(t *testing.T, client redis.UniversalClient, customer string, documents int) {
	t.Helper()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SubmitN(t.Context(), customer, ids(documents), nil); err != nil {
		t.Fatal(err)
	}
	if err := client.ZAdd(t.Context(), store.Keys(customer).Pending, redis.Z{Member: ":averages", Score: 52_001_400}).Err(); err != nil {
		t.Fatal(err)
	}
}

// ids are the documents that submit submits.
func ids(documents int) []string {
	all := make([]string, documents)
	for i := range all {
		all[i] = fmt.Sprint("document ", i)
	}
	return all
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

func sameFields(t *testing.T, got, want map[string]any) {
	t.Helper()
	for field, value := range want {
		if got[field] != value {
			t.Errorf("%s is %v, not %v, in %v", field, got[field], value, got)
		}
	}
}

// holds checks that a text has all of these, whatever the space between words, and that it
// fits a terminal.
func holds(t *testing.T, text string, wants ...string) {
	t.Helper()
	fits(t, text)
	words := strings.Join(strings.Fields(text), " ")
	for _, want := range wants {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// fits checks that no line is wider than a terminal.
func fits(t *testing.T, text string) {
	t.Helper()
	fitsIn(t, 80, text)
}

func fitsIn(t *testing.T, columns int, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
