// Package queues_test runs each program on its real broker.
package queues_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/docpriority/priority/internal/testing/brokertest"
	"github.com/docpriority/priority/internal/testing/redistest"
)

var brokers = map[string]struct {
	start    func(t *testing.T) (url string) // nil: the queue is in Redis
	programs []string
}{
	"Redis":      {nil, []string{"asynq", "redis"}},
	"NATS":       {func(t *testing.T) string { return brokertest.StartNATS(t).URL }, []string{"nats"}},
	"RabbitMQ":   {func(t *testing.T) string { return brokertest.StartRabbitMQ(t).URL }, []string{"rabbitmq"}},
	"PostgreSQL": {postgresWithRiver, []string{"river", "sql"}},
}

func postgresWithRiver(t *testing.T) string {
	server := brokertest.StartPostgres(t)
	pool, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	return server.URL
}

func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	if output, err := exec.Command("go", "build", "-o", dir, "./...").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	t.Run("NothingIsLost", func(t *testing.T) { testNothingIsLost(t, filepath.Join(dir, "redis")) })
	for name, broker := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if broker.start != nil {
				args = []string{"-url", broker.start(t)}
			}
			for _, program := range broker.programs {
				t.Run(program, func(t *testing.T) {
					t.Parallel()
					testProgram(t, filepath.Join(dir, program), append([]string{"-redis", redistest.Start(t).Addr}, args...))
				})
			}
		})
	}
}

// testProgram runs a program until a customer's one document has overtaken a hundred of
// another's, and all are served; then an interrupt ends it.
func testProgram(t *testing.T, program string, args []string) {
	command, lines, wait := start(t, program, args)
	waiting := map[string]bool{"clinic-0": true}
	for number := range 100 {
		waiting[fmt.Sprint("archive-", number)] = true
	}
	overtaken := 0
	for len(waiting) > 0 && lines.Scan() {
		delete(waiting, lines.Text())
		if !waiting["clinic-0"] {
			overtaken = max(overtaken, len(waiting))
		}
	}
	if len(waiting) > 0 || overtaken < 50 {
		t.Errorf("%d of 101 are not served; the clinic's overtook %d", len(waiting), overtaken)
	}
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}

// The program on Redis is the only one whose queue gives nothing back by itself.
func testNothingIsLost(t *testing.T, program string) {
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		server := redistest.Start(t)
		command, lines, wait := start(t, program, []string{"-redis", server.Addr})
		client := server.Client()
		count := func(key string) int { return int(client.ZCard(t.Context(), key).Val()) }
		served := 0
		for lines.Scan() {
			if served++; served == 10 {
				redistest.Await(t, "it works on the next one", func() bool { return count("{documents}") < 101-served })
				if err := command.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = wait()
		waiting, working := count("{documents}"), count("{documents}:work")
		if served+waiting+working < 101 || signal == os.Interrupt && working > 0 {
			t.Errorf("%v: %d are served, %d waiting, %d in work, of 101", signal, served, waiting, working)
		}
	}
}

func start(t *testing.T, program string, args []string) (*exec.Cmd, *bufio.Scanner, func() error) {
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = output.Close() })
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = input, os.Stderr
	wait := redistest.StartProgram(t, command)
	_ = input.Close()
	limit := time.AfterFunc(2*time.Minute, func() { redistest.KillProgram(command) }) // ends the lines
	t.Cleanup(func() { limit.Stop() })
	return command, bufio.NewScanner(output), wait
}
