// Package queues_test compiles what docs/queues.md, its pages and the README say to
// paste, and looks for the tests that they name.
package queues_test

import (
	"cmp"
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

	"github.com/docpriority/priority/internal/markdown"
)

var queues = []string{"asynq", "nats", "rabbitmq", "redis", "river"}

// The pages take these as given; everything else a snippet declares.
const (
	given = "ctx context.Context, store priority.Store, level, last priority.Level, maxPriority uint8, " +
		"customer, document string, body []byte"
	givenOnPages = given + ", process func(context.Context, string, string, []byte) error, documents *Documents, " +
		"pool *pgxpool.Pool, client *redis.Client"
)

// givenIn adds what a section of the guide takes as given.
var givenIn = map[string]string{
	"Celery on Redis":     ", properties map[string]any",
	"SQS, Pub/Sub, Kafka": ", receive func(name string) (message, bool), process func([]byte) error, acknowledge func(message)",
}

const message = "\ntype message struct {\n\tCustomer, Document string\n\tBody []byte\n}\n" // of a team's queue

var imports = map[string]string{
	"priority": "github.com/docpriority/priority", "queue": "github.com/docpriority/priority/queue",
	"program": "github.com/docpriority/priority/examples/queues/internal/program",
	"amqp":    "github.com/rabbitmq/amqp091-go", "asynq": "github.com/hibiken/asynq", "river": "github.com/riverqueue/river",
	"pgx": "github.com/jackc/pgx/v5", "pgxpool": "github.com/jackc/pgx/v5/pgxpool",
	"nats": "github.com/nats-io/nats.go", "redis": "github.com/redis/go-redis/v9", "slog": "log/slog",
	"context": "context", "fmt": "fmt", "slices": "slices", "time": "time", "log": "log",
}

var comment = regexp.MustCompile(`(?m)//.*$`)

// Every Go block of a queue's page, and what its diffs end in, stands in the Example tests
// of its module or in its program; else it compiles beside that.
func TestThePagesOfTheQueuesCompile(t *testing.T) {
	for _, name := range queues {
		t.Run(name, func(t *testing.T) {
			code := ""
			for _, file := range []string{"../../queue/" + name + "/example_test.go", name + "/main.go"} {
				if text, err := os.ReadFile(file); err == nil {
					code += unindented(string(text))
				}
			}
			isQuoted := func(block string) bool { return strings.Contains(code, unindented(block)) }
			for _, block := range markdown.Page(page(t, name)).Blocks("diff") {
				after := ""
				for line := range strings.Lines(block) {
					if line == "\n" || line[0] != '-' {
						after += strings.TrimLeft(line, "+ ")
					}
				}
				if !isQuoted(after) {
					t.Errorf("in no Example test:\n%s", after)
				}
			}
			if blocks := slices.DeleteFunc(goBlocks(t, page(t, name)), isQuoted); len(blocks) > 0 {
				compile(t, name, functions(givenOnPages, blocks))
			}
		})
	}
}

// unindented is code that can be compared with the same code elsewhere.
func unindented(code string) (text string) {
	for line := range strings.Lines(strings.TrimSpace(code)) {
		text += strings.TrimSpace(line) + "\n"
	}
	return text
}

// Every Go block of the guide compiles, and every line in its table and the README's.
func TestTheGuideCompiles(t *testing.T) {
	guide, readme := read(t, "../../docs/queues.md"), read(t, "../../README.md")
	row := regexp.MustCompile(`(?m)^\| \[.+?\]\((.*?)\).*? \| (.+?) \|`)
	code := regexp.MustCompile("`(.+?)`")
	var lines []string
	quoted := 0
	for _, cells := range row.FindAllStringSubmatch(guide+readme, -1) {
		for _, line := range code.FindAllStringSubmatch(cells[2], -1) {
			if quotes(t, cells[1], line[1]) { // it compiles there
				quoted++
				continue
			}
			if strings.ContainsAny(line[1], "({") { // more than a name
				lines = append(lines, "_ = "+line[1])
			}
		}
	}
	if quoted < 8 {
		t.Errorf("the pages quote only %d lines of the tables", quoted)
	}
	pasted := message + functions(given, lines)
	for _, section := range strings.Split(guide, "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		pasted += functions(given+givenIn[heading], markdown.Page(section).Blocks("go"))
	}
	compile(t, "internal/program", pasted)
}

// quotes tells whether the code of a linked page has a line.
func quotes(t *testing.T, link, line string) bool {
	t.Helper()
	file, _, _ := strings.Cut(strings.TrimPrefix(link, "docs/"), "#")
	return slices.ContainsFunc(markdown.Page(read(t, filepath.Join("../../docs", cmp.Or(file, "queues.md")))).Fences(), func(fence markdown.Fence) bool {
		return strings.Contains(fence.Text, line)
	})
}

// The guide's loop looks at all levels, and then waits: it does not spin while all
// are empty. In a second it looks at most ten times, with room for a busy machine.
func TestTheGuidesLoopWaitsWhileAllIsEmpty(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../../docs/queues.md"), "\n## SQS, Pub/Sub, Kafka\n")
	file := filepath.Join(t.TempDir(), "loop.go")
	write(t, file, withImports("main", message+`
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

func consume(ctx context.Context, store priority.Store, last priority.Level`+givenIn["SQS, Pub/Sub, Kafka"]+`) error {
	`+goBlocks(t, section)[0]+`
	return nil
}
`))
	output, err := exec.Command("go", "run", file).CombinedOutput()
	looks, notANumber := strconv.Atoi(string(output))
	if err != nil || notANumber != nil || looks < 9 || looks > 10*9 {
		t.Errorf("%s looks at queues, error %v", output, err)
	}
}

// A row of a page's table is as good as the test that it names; and the guide's is one
// that each queue is put to.
func TestThePagesNameTestsThatThereAre(t *testing.T) {
	named := regexp.MustCompile("`(Test[A-Z]\\w*)")
	for _, name := range queues {
		code := read(t, filepath.Join(name, "documents_test.go")) + read(t, filepath.Join(name, "main_test.go"))
		units, err := filepath.Glob("../../queue/" + name + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range units {
			code += read(t, file)
		}
		if !strings.Contains(code, "trial.Run(t, ") {
			t.Errorf("examples/queues/%s does not test what docs/queues.md promises", name)
		}
		found := named.FindAllStringSubmatch(page(t, name), -1)
		for _, test := range found {
			if !strings.Contains(code, "func "+test[1]+"(") {
				t.Errorf("docs/queues/%s.md names %s, which is in neither queue/%s nor examples/queues/%s", name, test[1], name, name)
			}
		}
		if len(found) < 5 {
			t.Errorf("docs/queues/%s.md names only %d tests", name, len(found))
		}
	}
	guide, tested := read(t, "../../docs/queues.md"), 0
	for _, promise := range regexp.MustCompile(`(?m)^\t\{"(\w+)", \w+\},$`).FindAllStringSubmatch(read(t, "internal/trial/suite.go"), -1) {
		if tested++; !strings.Contains(guide, "`"+promise[1]+"`") && promise[1] != "TheDemonstrationShowsEachCustomer" {
			t.Errorf("docs/queues.md does not name %s", promise[1])
		}
		guide = strings.ReplaceAll(guide, "`"+promise[1]+"`", "")
	}
	if left := regexp.MustCompile("`A[a-z]*[A-Z]\\w{15,}`").FindAllString(guide, -1); tested < 10 || len(left) > 0 {
		t.Errorf("docs/queues.md names %q, which is not among the %d tests of all queues", left, tested)
	}
}

func page(t *testing.T, queue string) string { return read(t, "../../docs/queues/"+queue+".md") }

func goBlocks(t *testing.T, page string) []string {
	t.Helper()
	blocks := markdown.Page(page).Blocks("go")
	if len(blocks) == 0 {
		t.Fatal("no Go block")
	}
	return blocks
}

// functions makes a function of each block.
func functions(given string, blocks []string) (code string) {
	for _, block := range blocks {
		code += fmt.Sprintf("\nfunc _(%s) error {\n\t{\n%s\n\t}\n\treturn nil\n}\n", given, block)
	}
	return code
}

// withImports is a file of what it needs.
func withImports(pkg, code string) string {
	header, uncommented := "package "+pkg+"\n\n", comment.ReplaceAllString(code, "")
	for name, path := range imports {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(uncommented) {
			header += fmt.Sprintf("import %s %q\n", name, path)
		}
	}
	return header + code
}

// compile builds code as a file more of the package in a folder.
func compile(t *testing.T, folder, code string) {
	t.Helper()
	absolute, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	pkg := "main"
	if strings.HasPrefix(folder, "internal/") {
		pkg = filepath.Base(folder)
		code = strings.ReplaceAll(code, pkg+".", "")
	}
	file, description := filepath.Join(t.TempDir(), "pasted.go"), filepath.Join(t.TempDir(), "overlay.json")
	code = withImports(pkg, code)
	write(t, file, code)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(absolute, "pasted.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, description, string(overlay))
	output, err := exec.Command("go", "build", "-gcflags=-e", "-o", os.DevNull, "-overlay", description, "./"+folder).CombinedOutput()
	complaints := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(output)), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#") || strings.Contains(line, "declared and not used: ")
	})
	if err != nil && len(complaints) > 0 {
		t.Errorf("%v\n%s\n%s", err, strings.Join(complaints, "\n"), code)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
