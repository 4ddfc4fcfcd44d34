package main

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// snippet is a block of Go in a document.
type snippet struct {
	page string
	line int // where its text begins
	text string
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// goSnippets returns those of every document of the tree.
func (t tree) goSnippets(ctx context.Context) ([]snippet, error) {
	files, err := t.files(ctx)
	if err != nil {
		return nil, err
	}
	var found []snippet
	for _, file := range files {
		if !strings.HasSuffix(file, ".md") {
			continue
		}
		text, err := t.read(file)
		if err != nil {
			return nil, err
		}
		found = append(found, goSnippetsOf(file, text)...)
	}
	return found, nil
}

func goSnippetsOf(page, text string) []snippet {
	var found []snippet
	for _, at := range goBlock.FindAllStringSubmatchIndex(text, -1) {
		line := 1 + strings.Count(text[:at[2]], "\n")
		found = append(found, snippet{page, line, text[at[2]:at[3]]})
	}
	return found
}

// snippets compiles the Go of every document with what is published. What a document
// takes as given is not declared here; all else has to be there.
func (r *rehearsal) snippets(ctx context.Context) error {
	snippets, err := r.copied.goSnippets(ctx)
	if err != nil {
		return err
	}
	dir, err := r.begin(ctx, "snippets")
	if err != nil {
		return err
	}
	var programs []string
	for i, snippet := range snippets {
		program := r.packageOf(snippet)
		programs = append(programs, program)
		if err := writePackage(filepath.Join(dir, strconv.Itoa(i)), program); err != nil {
			return err
		}
	}
	others, err := r.others(programs)
	if err != nil {
		return err
	}
	for _, other := range others {
		if _, err := r.user.run(ctx, dir, "mod", "edit", "-require="+other); err != nil {
			return err
		}
	}
	_, err = r.user.run(ctx, dir, "build", "-gcflags=-e", "-o", os.DevNull, "./...")
	return complaints(err)
}

func writePackage(dir, program string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644)
}

var (
	isProgram    = regexp.MustCompile(`(?m)^package \w+$`)
	isDeclared   = regexp.MustCompile(`(?m)^(func|type) `)
	lineComments = regexp.MustCompile(`(?m)//.*$`)
)

// packageOf makes a package of a block, which is a file, or declarations, or statements.
// The compiler speaks of the lines of its page. It is no command: that would be linked.
func (r *rehearsal) packageOf(s snippet) string {
	block := fmt.Sprintf("//line %s:%d\n%s", s.page, s.line, s.text)
	if isProgram.MatchString(block) {
		return isProgram.ReplaceAllString(block, "package pasted")
	}
	var imports strings.Builder
	known := maps.Clone(elsewhere)
	for _, library := range r.libraries {
		known[library.name] = library.path
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(lineComments.ReplaceAllString(block, "")) {
			fmt.Fprintf(&imports, "import %s %q\n", name, known[name])
		}
	}
	if isDeclared.MatchString(block) {
		return "package pasted\n\n" + imports.String() + "\n" + block
	}
	return "package pasted\n\n" + imports.String() + "\nfunc pasted() error {\n\t{\n" + block + "\t}\n\treturn nil\n}\n"
}

// elsewhere has what snippets import that is not ours, by the names that they use.
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
	"river": "github.com/riverqueue/river", "trace": "go.opentelemetry.io/otel/sdk/trace",
}

// others returns the modules of others that programs import, in the versions that the
// tree has of them.
func (r *rehearsal) others(programs []string) ([]string, error) {
	found := make(map[string]bool)
	for _, program := range programs {
		parsed, err := parser.ParseFile(token.NewFileSet(), "", program, parser.ImportsOnly)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, program)
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			for _, module := range r.modules {
				for _, require := range module.Require {
					if name := require.Mod.Path; !ours(name) && strings.HasPrefix(imported+"/", name+"/") {
						found[name+"@"+require.Mod.Version] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

var (
	complaint = regexp.MustCompile(`^\S+\.md:\d+: `)
	isGiven   = regexp.MustCompile(`: (undefined: \w+$|declared and not used: |"[^"]*" imported (as \w+ )?and not used)`)
)

// complaints returns what the compiler has against snippets, but for what a document
// takes as given or leaves to the reader.
func complaints(err error) error {
	if err == nil {
		return nil
	}
	var all []error
	understood := false
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if !complaint.MatchString(line) {
			continue
		}
		understood = true
		if !isGiven.MatchString(line) {
			all = append(all, errors.New(line))
		}
	}
	if !understood {
		return err
	}
	return errors.Join(all...)
}

// readme runs the README's Go, each block on a Redis of its own where the README has
// it. A machine that is busy may need more than one try to keep the timeout.
func (r *rehearsal) readme(ctx context.Context) error {
	text, err := r.copied.read("README.md")
	if err != nil {
		return err
	}
	for i, snippet := range goSnippetsOf("README.md", text) {
		dir := filepath.Join(r.dir, "snippets", "readme"+strconv.Itoa(i))
		program := strings.Replace(r.packageOf(snippet), "package pasted", "package main", 1)
		if err := writePackage(dir, program+"\nfunc main() { _ = pasted() }\n"); err != nil {
			return err
		}
		if _, err := r.user.run(ctx, dir, "build", "-o", "service", "."); err != nil {
			return err
		}
		var said, want string
		for line := range strings.Lines(snippet.text) {
			if _, claim, ok := strings.Cut(line, "// prints: "); ok {
				want += claim
			}
		}
		for range 5 {
			if said, err = onRedis(ctx, func() (string, error) { return output(ctx, dir, nil, filepath.Join(dir, "service")) }); err == nil && said == strings.TrimSpace(want) {
				break
			}
		}
		if err == nil && said != strings.TrimSpace(want) {
			err = fmt.Errorf("%s\nprints\n%s\nand not\n%s", snippet.text, said, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
