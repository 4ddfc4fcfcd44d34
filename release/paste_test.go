package release

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/markdown"
)

// paste compiles the Go of every page in a user's module, and what the diffs of the queues'
// pages end in. What a page takes as given is not declared there; all else has to be.
func (r *rehearsal) paste(t *testing.T, dir string, libraries map[string]string) {
	t.Helper()
	known := maps.Clone(elsewhere)
	maps.Copy(known, libraries)
	blocks := 0
	for _, page := range strings.Fields(run(t, r.tree, nil, "git", "ls-files", "*.md")) {
		for _, fence := range markdown.Read(t, filepath.Join(r.tree, page)).Fences() {
			text := fence.Text
			switch {
			case fence.Language == "diff" && strings.HasPrefix(page, "docs/queues/"):
				text = after(text)
			case fence.Language != "go":
				continue
			}
			block := fmt.Sprintf("//line %s:%d\n%s", page, fence.Line, text)
			write(t, filepath.Join(dir, "pasted", strconv.Itoa(blocks), "pasted.go"), packageOf(block, known))
			blocks++
		}
	}
	// Other modules have the versions that the tree has of them.
	required := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`)
	edit := []string{"mod", "edit"}
	for _, file := range strings.Fields(run(t, r.tree, nil, "git", "ls-files", "*go.mod")) {
		text := run(t, r.tree, nil, "git", "show", "HEAD:"+file)
		for _, module := range required.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(module[1], root) {
				edit = append(edit, "-require="+module[1]+"@"+module[2])
			}
		}
	}
	run(t, dir, r.env, "go", edit...)
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-gcflags=-e", "./pasted/...")
	build.Dir, build.Env = dir, append(os.Environ(), r.env...)
	out, err := build.CombinedOutput()
	understood := err == nil
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if complaint.MatchString(line) {
			understood = true
			if !isGiven.MatchString(line) {
				t.Error(line)
			}
		}
	}
	if !understood || blocks == 0 {
		t.Errorf("%d blocks of Go: %v\n%s", blocks, err, out)
	}
}

var (
	complaint = regexp.MustCompile(`^\S+\.md:\d+: `)
	isGiven   = regexp.MustCompile(`: (undefined: \w+$|declared and not used: |"[^"]*" imported (as \w+ )?and not used)`)

	isProgram    = regexp.MustCompile(`(?m)^package \w+$`)
	isDeclared   = regexp.MustCompile(`(?m)^(func|type) `)
	lineComments = regexp.MustCompile(`(?m)//.*$`)
)

// after returns what a diff ends in, with as many lines as it has.
func after(diff string) (text string) {
	for line := range strings.Lines(diff) {
		if line[0] != '-' {
			text += line[1:]
		} else {
			text += "\n"
		}
	}
	return text
}

// packageOf makes a package of a block, which is a file, or declarations, or statements.
func packageOf(block string, known map[string]string) string {
	if isProgram.MatchString(block) {
		return isProgram.ReplaceAllString(block, "package pasted") // a command would be linked
	}
	text := "package pasted\n\n"
	code := lineComments.ReplaceAllString(block, "")
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(code) {
			text += fmt.Sprintf("import %s %q\n", name, known[name])
		}
	}
	if isDeclared.MatchString(block) {
		return text + block
	}
	return text + "func pasted() error {\n\t{\n" + block + "\t}\n\treturn nil\n}\n"
}

// elsewhere has what blocks import that is not ours, by the names that they use.
var elsewhere = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "httptest": "net/http/httptest",
	"log": "log", "os": "os", "rand": "math/rand/v2", "signal": "os/signal", "slices": "slices", "slog": "log/slog",
	"sync": "sync", "testing": "testing", "time": "time",
	"amqp": "github.com/rabbitmq/amqp091-go", "asynq": "github.com/hibiken/asynq",
	"jetstream": "github.com/nats-io/nats.go/jetstream", "metric": "go.opentelemetry.io/otel/sdk/metric",
	"nats": "github.com/nats-io/nats.go", "otelprometheus": "go.opentelemetry.io/otel/exporters/prometheus",
	"pgx": "github.com/jackc/pgx/v5", "pgxpool": "github.com/jackc/pgx/v5/pgxpool",
	"prometheus": "github.com/prometheus/client_golang/prometheus",
	"promhttp":   "github.com/prometheus/client_golang/prometheus/promhttp",
	"redis":      "github.com/redis/go-redis/v9", "redis_rate": "github.com/go-redis/redis_rate/v10",
	"river": "github.com/riverqueue/river", "riverpgxv5": "github.com/riverqueue/river/riverdriver/riverpgxv5",
	"rivertype": "github.com/riverqueue/river/rivertype", "trace": "go.opentelemetry.io/otel/sdk/trace",
}
