package brokertest

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docpriority/priority/internal/testing/redistest"
)

// StartRabbitMQ starts rabbitmq-server, with further lines of rabbitmq.conf, and the name
// server that Erlang needs.
func StartRabbitMQ(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	// Debian's command on the PATH wants to be root and runs as a separate user;
	// the script that it calls does not.
	program := find(tb, "rabbitmq-server", "rabbitmq-server", "/usr/lib/rabbitmq/bin")
	nameServer := find(tb, "epmd", "erlang-base", "/usr/lib/erlang/bin")
	port, nameServerPort := redistest.FreePort(tb), redistest.FreePort(tb)
	distributionPort := port + 10_000 // free too; RabbitMQ wants it to be on all addresses, and FreePort holds its port on one

	// Started by RabbitMQ it would be a daemon, and outlive it.
	redistest.StartProgram(tb, exec.Command(nameServer, "-address", "127.0.0.1", "-port", fmt.Sprint(nameServerPort)))
	redistest.Await(tb, "epmd answers", func() bool { return answers(nameServerPort, "\x00\x01n", "\x00") })

	dir := tempDir(tb)
	config := filepath.Join(dir, "rabbitmq.conf")
	text := fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\n%s\n", port, strings.Join(settings, "\n"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s := &Server{
		URL: fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", port), tb: tb, dir: dir, quit: syscall.SIGKILL,
		program: program,
		env: []string{
			"PATH=" + os.Getenv("PATH"),
			"HOME=" + dir, // for the cookie
			"ERL_EPMD_ADDRESS=127.0.0.1",
			fmt.Sprint("ERL_EPMD_PORT=", nameServerPort),
			fmt.Sprint("RABBITMQ_DIST_PORT=", distributionPort),
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}", // +sbwt: an idle server does not spin
			"RABBITMQ_NODENAME=priority@localhost",
			"RABBITMQ_CONFIG_FILE=" + config,
			"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"), // not the machine's
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"),
			"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "mnesia"),
			"RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
			"RUNNING_UNDER_SYSTEMD=true", // the script becomes the server instead of waiting for it
		},
		ready:   func() bool { return answers(port, "AMQP\x00\x00\x09\x01", "\x01") },
		durable: func() bool { return quorumQueuesSaved(dir) },
	}
	s.Restart()
	return s
}

// quorumQueuesSaved reports whether the table of the quorum queues is on disk, with the
// mark that it was closed properly. It is about half a second after the last declaration:
// a server that crashes before recovers that queue without a leader (rabbitmq-server#10070).
func quorumQueuesSaved(dir string) bool {
	tables, _ := filepath.Glob(filepath.Join(dir, "mnesia", "*", "quorum", "*", "names.dets"))
	for _, table := range tables {
		const mark, closed = 8, 1 // a 4-byte number
		content, err := os.ReadFile(table)
		if err != nil || len(content) < mark+4 || binary.BigEndian.Uint32(content[mark:]) != closed {
			return false
		}
	}
	return true
}
