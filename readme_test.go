package priority_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/docpriority/priority/internal/redistest"
)

// documents are the pages whose snippets are run.
var documents = []string{"README.md"}

// TestGoSnippets runs every Go block of the documents against miniredis and
// compares what it prints with its "// prints:" comments.
func TestGoSnippets(t *testing.T) {
	t.Parallel()
	for _, document := range documents {
		for i, snippet := range blocks(t, document, "go") {
			t.Run(fmt.Sprintf("%s/%d", document, i+1), func(t *testing.T) {
				t.Parallel()
				server := miniredis.RunT(t)
				program := strings.ReplaceAll(snippet, "localhost:6379", server.Addr())
				if got, want := run(t, asProgram(program)), printed(snippet); got != want {
					t.Errorf("it prints\n%s\nand not, as the document says,\n%s", got, want)
				}
			})
		}
	}
}

// TestConsoleSnippets runs the lines after "$" of every console block, in order,
// with a redis-cli that talks to a server of the test's own, and compares what
// they print.
func TestConsoleSnippets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, port, _ := net.SplitHostPort(server.Addr)
	redisCLI := redistest.Find(t, "redis-cli", "redis-tools")
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s -p %s --no-raw \"$@\"\n", redisCLI, port)
	if err := os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		for _, block := range blocks(t, document, "console") {
			for _, call := range strings.Split("\n"+block, "\n$ ")[1:] {
				line, want, _ := strings.Cut(call, "\n")
				cmd := exec.Command("sh", "-c", line)
				cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
				got, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s: %s: %v\n%s", document, line, err, got)
				}
				if strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
					t.Errorf("%s: %s prints\n%s\nand not\n%s", document, line, got, want)
				}
			}
		}
	}
}

// blocks returns the fenced blocks of one language.
func blocks(t *testing.T, document, language string) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	fence := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, match := range fence.FindAllSubmatch(text, -1) {
		found = append(found, string(match[1]))
	}
	return found
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

// asProgram makes a program of a snippet, importing what it names.
func asProgram(snippet string) string {
	var imports strings.Builder
	for name, path := range map[string]string{
		"context": "context", "errors": "errors", "fmt": "fmt", "log": "log", "time": "time",
		"redis": "github.com/redis/go-redis/v9", "priority": "github.com/docpriority/priority",
	} {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(snippet) {
			fmt.Fprintf(&imports, "import %q\n", path)
		}
	}
	return "package main\n" + imports.String() + "func main() {\n" + snippet + "}\n"
}

// run runs a program as part of this module and returns what it prints.
func run(t *testing.T, program string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("go", "run", file)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stderr.String(), program)
	}
	return stdout.String()
}
