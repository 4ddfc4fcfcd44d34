// Package queues_test compiles what docs/queues.md, its pages and the README say to
// paste, and looks for the tests that they name.
package queues_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	guide  = "../../docs/queues.md"
	readme = "../../README.md" // its Go blocks are run elsewhere; its table's lines count here
	pages  = "../../docs/queues"
)

// The pages take these as given; everything else a snippet declares.
const given = "ctx context.Context, store priority.Store, level, last priority.Level, maxPriority uint8, url string, " +
	"customer, document string, body []byte"

// givenIn adds what a page or a section of the guide takes as given.
var givenIn = map[string]string{
	"rabbitmq":            "documents *Documents, process func(context.Context, string, string, []byte) error",
	"asynq":               "documents *Documents, process func(context.Context, string, string, []byte) error",
	"river":               "pool *pgxpool.Pool, documents *Documents, process func(context.Context, string, string, []byte) error",
	"nats":                "documents *Documents, process func(context.Context, string, string, []byte) error",
	"redis":               "documents *Documents, client *redis.Client, process func(context.Context, string, string, []byte) error",
	"Celery on Redis":     "properties map[string]any",
	"SQS, Pub/Sub, Kafka": "receive func(name string) (message, bool), process func([]byte) error, acknowledge func(message)",
}

var imports = map[string]string{
	"context": "context", "fmt": "fmt", "slices": "slices", "time": "time", "slog": "log/slog", "signal": "os/signal",
	"os": "os", "errors": "errors", "log": "log",
	"priority": "github.com/docpriority/priority", "queue": "github.com/docpriority/priority/queue",
	"amqp": "github.com/rabbitmq/amqp091-go", "asynq": "github.com/hibiken/asynq",
	"river": "github.com/riverqueue/river", "pgx": "github.com/jackc/pgx/v5", "pgxpool": "github.com/jackc/pgx/v5/pgxpool",
	"nats": "github.com/nats-io/nats.go", "jetstream": "github.com/nats-io/nats.go/jetstream",
	"redis": "github.com/redis/go-redis/v9",
}

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	comment = regexp.MustCompile(`(?m)//.*$`)
)

// Every Go block of a queue's page compiles beside its example.
func TestThePagesOfTheQueuesCompile(t *testing.T) {
	for _, name := range queuePages(t) {
		t.Run(name, func(t *testing.T) {
			blocks := goBlock.FindAllStringSubmatch(read(t, filepath.Join(pages, name+".md")), -1)
			if len(blocks) == 0 {
				t.Fatal("the page has no Go block")
			}
			var code []string
			for _, block := range blocks {
				code = append(code, block[1])
			}
			compile(t, name, "main", code, givenIn[name])
		})
	}
}

// Every Go block of the guide compiles, and every line in its table and the README's.
func TestTheGuideCompiles(t *testing.T) {
	page, readme := read(t, guide), read(t, readme)
	row := regexp.MustCompile(`(?m)^\| \[(.+?)\]\(.*?\).*? \| (.+?) \|`)
	quoted := regexp.MustCompile("`(.+?)`")
	var lines []string
	for _, cells := range row.FindAllStringSubmatch(page+readme, -1) {
		for _, line := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if strings.ContainsAny(line[1], "({") { // more than a name
				lines = append(lines, "_ = "+line[1])
			}
		}
	}
	if len(lines) < 6 {
		t.Errorf("the tables have only the lines %q", lines)
	}
	compile(t, "", "pasted", lines, "")
	for _, section := range strings.Split(page, "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		for _, block := range goBlock.FindAllStringSubmatch(section, -1) {
			compile(t, "", "pasted", []string{block[1]}, givenIn[heading])
		}
	}
}

// The guide's loop looks at all levels, and then waits: it does not spin while all
// are empty. In a second it looks at most ten times, with room for a busy machine.
func TestTheGuidesLoopWaitsWhileAllIsEmpty(t *testing.T) {
	_, section, _ := strings.Cut(read(t, guide), "\n## SQS, Pub/Sub, Kafka\n")
	block := goBlock.FindStringSubmatch(section)
	if block == nil {
		t.Fatal("the section has no Go block")
	}
	file := filepath.Join(t.TempDir(), "loop.go")
	program := fmt.Sprintf(`package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
)

func main() {
	ctx, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	looks := 0
	receive := func(string) (message, bool) { looks++; return message{}, false }
	if err := consume(ctx, nil, 9, receive, nil, nil); err != nil {
		panic(err)
	}
	fmt.Print(looks)
}

type message struct {
	Customer, Document string
	Body               []byte
}

func consume(ctx context.Context, store priority.Store, last priority.Level, receive func(string) (message, bool),
	process func([]byte) error, acknowledge func(message)) error {
%s
	return nil
}
`, block[1])
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("go", "run", file).CombinedOutput()
	looks, notANumber := strconv.Atoi(string(output))
	if err != nil || notANumber != nil || looks < 9 || looks > 10*9 {
		t.Errorf("%s looks at queues, error %v", output, err)
	}
}

// A row of a page's table is as good as the test that it names.
func TestThePagesNameTestsThatThereAre(t *testing.T) {
	named := regexp.MustCompile("`(Test[A-Z]\\w*)")
	for _, name := range queuePages(t) {
		page := read(t, filepath.Join(pages, name+".md"))
		tests, err := filepath.Glob(filepath.Join(name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var code strings.Builder
		for _, file := range tests {
			code.WriteString(read(t, file))
		}
		found := named.FindAllStringSubmatch(page, -1)
		for _, test := range found {
			if !strings.Contains(code.String(), "func "+test[1]+"(") {
				t.Errorf("docs/queues/%s.md names %s, which is not in examples/queues/%s", name, test[1], name)
			}
		}
		if len(found) < 8 {
			t.Errorf("docs/queues/%s.md names only %d tests", name, len(found))
		}
	}
}

// queuePages returns the names of the pages, each of which has an example.
func queuePages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil || len(files) < 5 {
		t.Fatalf("pages %q, error %v", files, err)
	}
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".md"))
	}
	return names
}

// compile builds the blocks, each as a function or as declarations, as a file more
// of the package in a folder.
func compile(t *testing.T, folder, pkg string, blocks []string, more string) {
	t.Helper()
	parameters := given
	if more != "" {
		parameters += ", " + more
	}
	var declarations strings.Builder
	for _, block := range blocks {
		if regexp.MustCompile(`(?m)^(func|type) `).MatchString(block) {
			declarations.WriteString(block)
			continue
		}
		fmt.Fprintf(&declarations, "\nfunc _(%s) error {\n\t{\n%s\n\t}\n\treturn nil\n}\n", parameters, block)
	}
	var program strings.Builder
	fmt.Fprintf(&program, "package %s\n\n", pkg)
	uncommented := comment.ReplaceAllString(declarations.String(), "")
	for name, path := range imports {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(uncommented) {
			fmt.Fprintf(&program, "import %s %q\n", name, path)
		}
	}
	program.WriteString(declarations.String())
	if folder == "" {
		program.WriteString("\ntype message struct {\n\tCustomer, Document string\n\tBody []byte\n}\n") // of the team's queue
	}

	file := filepath.Join(t.TempDir(), "pasted.go")
	if err := os.WriteFile(file, []byte(program.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	build := []string{"build", "-gcflags=-e", "-o", os.DevNull}
	if folder == "" {
		build = append(build, file)
	} else {
		absolute, err := filepath.Abs(folder)
		if err != nil {
			t.Fatal(err)
		}
		overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(absolute, "pasted.go"): file}})
		if err != nil {
			t.Fatal(err)
		}
		description := filepath.Join(t.TempDir(), "overlay.json")
		if err := os.WriteFile(description, overlay, 0o644); err != nil {
			t.Fatal(err)
		}
		build = append(build, "-overlay", description, "./"+folder)
	}
	output, err := exec.Command("go", build...).CombinedOutput()
	complaints := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(output)), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#") || strings.Contains(line, "declared and not used: ")
	})
	if err != nil && len(complaints) > 0 {
		t.Errorf("%v\n%s\n%s", err, strings.Join(complaints, "\n"), program.String())
	}
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
