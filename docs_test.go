package priority_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/docpriority/priority/internal/testing/markdown"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// given is what the pages take as given, and how the program of all snippets runs one.
const given = `package main

import (
	"context"
	"os"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	priorityrabbitmq "github.com/docpriority/priority/queue/rabbitmq"
	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
)

var (
	address            = os.Args[2]
	ctx                = context.Background()
	store              *fleet.Member
	client             *redis.Client
	customer, document string
	body, payload      []byte
	last               priority.Level

	channel    *amqp.Channel
	connection *amqp.Connection
	documents  *priorityrabbitmq.Queue
	process    func(context.Context, amqp.Delivery) error

	pool    *pgxpool.Pool
	workers *river.Workers

	redisOpt      asynq.RedisClientOpt
	asynqClient   *asynq.Client
	task          *asynq.Task
	mux           *asynq.ServeMux
	HandleConvert func(context.Context, *asynq.Task) error

	receive func(name string) (message any, ok bool)
	handle  func(message any) error
	upload  func(store priority.Store, customer, document string) priority.Level
)

type ConvertArgs struct {
	Customer string
	Pages    int
}

func (ConvertArgs) Kind() string { return "convert" }

func main() { snippets[os.Args[1]]() }
`

// importable are the packages that snippets use without importing them.
var importable = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "log": "log", "slices": "slices", "slog": "log/slog", "sync": "sync", "testing": "testing", "time": "time",
	"amqp": "github.com/rabbitmq/amqp091-go", "asynq": "github.com/hibiken/asynq", "redis": "github.com/redis/go-redis/v9",
	"river": "github.com/riverqueue/river", "riverpgxv5": "github.com/riverqueue/river/riverdriver/riverpgxv5", "rivertype": "github.com/riverqueue/river/rivertype",
	"priority": ours, "control": ours + "/control", "fallback": ours + "/fallback", "fleet": ours + "/fleet", "memory": ours + "/memory",
	"observe": ours + "/observe", "prioritytest": ours + "/prioritytest", "queue": ours + "/queue", "priorityotel": ours + "/priorityotel",
	"priorityasynq": ours + "/queue/asynq", "priorityrabbitmq": ours + "/queue/rabbitmq", "priorityriver": ours + "/queue/river",
}

const ours = "github.com/docpriority/priority"

// The Go of all pages, and what their diffs end in, compiles as one program. What has a
// "// prints:" prints that.
func TestDocs_Go(t *testing.T) {
	t.Parallel()
	files := map[string]string{"given.go": given}
	printing := make(map[string]string) // what snippets print, by their names
	for _, page := range pages(t) {
		for i, fence := range markdown.Read(t, page).Fences() {
			text := fence.Text
			switch fence.Language {
			case "go":
			case "diff":
				text = after(text)
			default:
				continue
			}
			name := "_"
			if prints := printed(text); prints != "" {
				name = fmt.Sprint("snippet", len(printing))
				printing[name] = prints
			}
			file := fmt.Sprintf("%s-%d.go", strings.NewReplacer("/", "-", ".md", "").Replace(page), i)
			files[file] = strings.ReplaceAll(asFile(name, fmt.Sprintf("//line %s:%d\n", page, fence.Line), text), `"localhost:6379"`, "address")
		}
	}
	table := "package main\n\nvar snippets map[string]func()\n\nfunc init() {\n\tsnippets = map[string]func(){\n"
	for name := range printing {
		table += fmt.Sprintf("\t\t%q: func() { %s() },\n", name, name)
	}
	files["snippets.go"] = table + "\t}\n}\n"
	program := build(t, files)
	for name, want := range printing {
		var stdout, stderr bytes.Buffer
		for try := 1; ; try++ { // on a busy machine a call may take longer than its timeout
			stdout.Reset()
			command := exec.CommandContext(t.Context(), program, name, miniredis.RunT(t).Addr())
			command.Stdout, command.Stderr = &stdout, &stderr
			err := command.Run()
			if err == nil && stdout.String() == want {
				break
			}
			if try == 3 {
				t.Errorf("a snippet prints\n%s\nand not\n%s\n%v\n%s", stdout.String(), want, err, stderr.String())
				break
			}
		}
	}
}

// asFile makes a file of package main of a snippet: a program, declarations or statements.
func asFile(name, place, snippet string) string {
	if program, ok := strings.CutPrefix(snippet, "package main\n"); ok {
		return place + "package main\n" + strings.Replace(program, "\nfunc main() {", "\nfunc "+name+"() {", 1)
	}
	file := "package main\n\n"
	code := regexp.MustCompile(`(?m)//.*$`).ReplaceAllString(snippet, "")
	for imported, from := range importable {
		if regexp.MustCompile(`\b` + imported + `\.`).MatchString(code) {
			file += fmt.Sprintf("import %s %q\n", imported, from)
		}
	}
	if regexp.MustCompile(`(?m)^(func|type) `).MatchString(code) {
		return file + place + snippet
	}
	file += "\nfunc " + name + "() error {\n" + place + snippet
	for _, defined := range regexp.MustCompile(`(?m)^(\w+(?:, \w+)*) := `).FindAllStringSubmatch(snippet, -1) {
		for variable := range strings.SplitSeq(defined[1], ", ") {
			file += "\t_ = " + variable + "\n" // a page need not use it
		}
	}
	return file + "\treturn nil\n}\n"
}

// after returns what a diff ends in.
func after(diff string) (text string) {
	for line := range strings.Lines(diff) {
		switch {
		case line == "\n":
			text += line
		case line[0] != '-':
			text += line[1:]
		}
	}
	return text
}

// printed returns what a snippet claims to print.
func printed(snippet string) (lines string) {
	for line := range strings.Lines(snippet) {
		if _, claim, ok := strings.Cut(line, "// prints: "); ok {
			lines += claim
		}
	}
	return lines
}

// build makes a program of files that seem to be in a folder of this module, so that they
// can import what any module of the workspace does.
func build(t *testing.T, files map[string]string) (program string) {
	t.Helper()
	dir := t.TempDir()
	folder, err := filepath.Abs("docs/pasted")
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(folder, name)] = file
	}
	description, _ := json.Marshal(overlay)
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), description, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "program")
	args := []string{"build", "-gcflags=-e", "-o", program, "-overlay", filepath.Join(dir, "overlay.json"), "./docs/pasted"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = slices.Insert(args, 1, "-race") // as what the tests run is compiled: not everything once more
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// The lines after "$" of console blocks print what the page says, in order, with a redis-cli
// that talks to a server of this test. The module release follows docs/start.md.
func TestDocs_Console(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, port, _ := net.SplitHostPort(server.Addr)
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s -p %s --no-raw \"$@\"\n", redistest.Find(t, "redis-cli", "redis-tools"), port)
	if err := os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"README.md", "docs/redis.md"} {
		for _, block := range markdown.Read(t, page).Blocks("console") {
			for _, exchange := range strings.Split("\n"+block, "\n$ ")[1:] {
				line, want, _ := strings.Cut(exchange, "\n")
				want, _, more := strings.Cut(strings.TrimSpace(want), "\n…") // the page leaves the rest out
				command := exec.Command("sh", "-c", line)
				command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
				got, err := command.CombinedOutput()
				if rest, ok := strings.CutPrefix(strings.TrimSpace(string(got)), want); err != nil || !ok || (rest != "") != more {
					t.Errorf("%s: %s: %v, prints\n%s\nand not\n%s", page, line, err, got, want)
				}
			}
		}
	}
}

// The Python and JavaScript of all pages can be parsed.
func TestDocs_OtherLanguages(t *testing.T) {
	t.Parallel()
	for language, parse := range map[string][]string{
		"python": {redistest.Find(t, "python3", "python3"), "-c", `import ast, sys
for name in sys.argv[1:]: ast.parse(open(name).read(), name)`},
		"js": {redistest.Find(t, "node", "nodejs"), "--no-warnings", "--experimental-vm-modules", "-e", `
for (const file of process.argv.slice(1)) new (require('node:vm').SourceTextModule)(require('node:fs').readFileSync(file, 'utf8'), { identifier: file });`},
	} {
		dir := t.TempDir()
		for _, page := range pages(t) {
			for i, block := range markdown.Read(t, page).Blocks(language) {
				file := filepath.Join(dir, fmt.Sprintf("%s-%d", strings.ReplaceAll(page, "/", "-"), i))
				if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
					t.Fatal(err)
				}
				parse = append(parse, file)
			}
		}
		if out, err := exec.Command(parse[0], parse[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", language, err, out)
		}
	}
}

// Links lead to a file, and to a heading that is in it, also by the repository's address.
func TestDocs_Links(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	repository := regexp.MustCompile(`^https://` + ours + `(/(blob|tree)/main/|$)`)
	anchors := make(map[string][]string)
	for _, page := range pages(t) {
		anchors[page] = anchorsOf(t, page)
	}
	for page := range anchors {
		for _, match := range link.FindAllStringSubmatch(markdown.Read(t, page).Prose(), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			file := path.Join(path.Dir(page), target)
			switch {
			case repository.MatchString(target):
				file = cmp.Or(repository.ReplaceAllString(target, ""), "README.md")
			case strings.Contains(target, ":"):
				continue // another site
			case target == "":
				file = page
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s: %v", page, match[1], err)
			} else if anchor != "" && !slices.Contains(anchors[file], anchor) {
				t.Errorf("%s: %s: no such heading", page, match[1])
			}
		}
	}
}

// anchorsOf returns the anchors of a page's headings, as GitHub makes them.
func anchorsOf(t *testing.T, page string) (found []string) {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(markdown.Read(t, page).Prose(), -1) {
		anchor := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
		found = append(found, strings.ReplaceAll(anchor, " ", "-"))
	}
	return found
}

// pages returns all pages of the repository.
func pages(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && name != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			found = append(found, filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
