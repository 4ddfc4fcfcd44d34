// Package queues_test compiles what docs/queues.md and the README say to paste.
package queues_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	guide  = "../../docs/queues.md"
	readme = "../../README.md" // its Go blocks are run elsewhere; its table's lines count here
)

// The page takes these as given; everything else a snippet declares.
const given = "ctx context.Context, store priority.Store, level, last priority.Level, maxPriority uint8, " +
	"document []byte, process func([]byte) error"

// givenIn adds what a section takes as given.
var givenIn = map[string]string{
	"RabbitMQ":               "channel *amqp.Channel",
	"asynq":                  "client *asynq.Client, connection asynq.RedisConnOpt, handler asynq.Handler",
	"River":                  "client *river.Client[pgx.Tx]",
	"NATS JetStream":         "js jetstream.JetStream, consume func(context.Context, []jetstream.Consumer, *queue.Picker) error",
	"Redis lists or streams": "client *redis.Client",
	"Celery on Redis":        "properties map[string]any",
	"SQS, Pub/Sub, Kafka":    "receive func(name string) ([]byte, bool)",
}

var imports = map[string]string{
	"context": "context", "fmt": "fmt", "slices": "slices",
	"priority": "github.com/docpriority/priority", "queue": "github.com/docpriority/priority/queue",
	"amqp": "github.com/rabbitmq/amqp091-go", "asynq": "github.com/hibiken/asynq",
	"river": "github.com/riverqueue/river", "pgx": "github.com/jackc/pgx/v5",
	"jetstream": "github.com/nats-io/nats.go/jetstream", "redis": "github.com/redis/go-redis/v9",
}

// TestWhatIsToBePastedCompiles: every Go block of the page, and every line in its
// table, of each queue.
func TestWhatIsToBePastedCompiles(t *testing.T) {
	page, readme := read(t, guide), read(t, readme)
	var functions strings.Builder
	paste := func(section, code string) {
		parameters := given
		if more := givenIn[section]; more != "" {
			parameters += ", " + more
		}
		fmt.Fprintf(&functions, "\n// %s\nfunc _(%s) error {\n\t{\n%s\n_, _ = level, last\n\t}\n\treturn nil\n}\n",
			section, parameters, code)
	}

	row := regexp.MustCompile(`(?m)^\| \[(.+?)\]\(.*?#.*?\).*? \| (.+?) \|`)
	quoted := regexp.MustCompile("`(.+?)`")
	inTable := make(map[string]bool)
	for _, cells := range row.FindAllStringSubmatch(page+readme, -1) {
		for _, line := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if strings.ContainsAny(line[1], "({") { // more than a name
				paste(cells[1], "_ = "+line[1])
				inTable[cells[1]] = true
			}
		}
	}
	block := regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	for _, section := range strings.Split(page, "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		blocks := block.FindAllStringSubmatch(section, -1)
		for _, code := range blocks {
			paste(heading, code[1])
		}
		if _, isQueue := givenIn[heading]; isQueue && (len(blocks) == 0 || !inTable[heading]) {
			t.Errorf("%s has %d Go blocks; lines in the table: %t", heading, len(blocks), inTable[heading])
		}
	}

	var program strings.Builder
	program.WriteString("package pasted\n\n")
	for name, path := range imports {
		fmt.Fprintf(&program, "import %s %q\n", name, path)
	}
	program.WriteString("\ntype job struct{ Document []byte }\n\nfunc (job) Kind() string { return \"document\" }\n")
	program.WriteString(functions.String())
	file := filepath.Join(t.TempDir(), "pasted.go")
	if err := os.WriteFile(file, []byte(program.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("go", "build", "-gcflags=-e", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, output, program.String())
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
