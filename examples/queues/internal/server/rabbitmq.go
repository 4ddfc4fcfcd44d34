package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// StartRabbitMQ starts rabbitmq-server, and the name server that Erlang needs.
func StartRabbitMQ(ctx context.Context) (*Server, error) {
	return StartRabbitMQWith(ctx, "", "")
}

// otherRabbitMQ, in the environment, is a command that runs another version: it is
// given a port, has the next two for itself, and takes a directory for its data from
// DATA, a file of further settings from CONF, and arguments of Erlang from ERLARGS.
const otherRabbitMQ = "PRIORITY_RABBITMQ"

// StartRabbitMQWith starts it with further lines of rabbitmq.conf, and arguments of
// Erlang for what cannot be set there.
func StartRabbitMQWith(ctx context.Context, settings, arguments string) (*Server, error) {
	if command := strings.Fields(os.Getenv(otherRabbitMQ)); len(command) > 0 {
		return startOther(ctx, command, settings, arguments)
	}
	// Debian's command on the PATH wants to be root and runs as a user of its own;
	// the script that it calls does not.
	program, err := find("rabbitmq-server", "rabbitmq-server", "/usr/lib/rabbitmq/bin")
	if err != nil {
		return nil, err
	}
	nameServer, err := find("epmd", "erlang-base", "/usr/lib/erlang/bin")
	if err != nil {
		return nil, err
	}
	return start(ctx, 3, func(ctx context.Context, s *Server, ports []int) error {
		port, distributionPort, nameServerPort := ports[0], ports[1], ports[2]
		s.URL = fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", port)

		// Started by RabbitMQ it would be a daemon, and outlive it.
		names := exec.Command(nameServer, "-address", "127.0.0.1", "-port", fmt.Sprint(nameServerPort))
		if err := s.run(ctx, names, syscall.SIGKILL, func() bool { return answers(nameServerPort, "\x00\x01n", "\x00") }); err != nil {
			return err
		}

		config := filepath.Join(s.dir, "rabbitmq.conf")
		if err := os.WriteFile(config, fmt.Appendf(nil, "listeners.tcp.1 = 127.0.0.1:%d\n%s", port, settings), 0o600); err != nil {
			return err
		}
		command := exec.Command(program)
		command.Env = []string{
			"PATH=" + os.Getenv("PATH"),
			"HOME=" + s.dir, // for the cookie
			"ERL_EPMD_ADDRESS=127.0.0.1",
			fmt.Sprint("ERL_EPMD_PORT=", nameServerPort),
			fmt.Sprint("RABBITMQ_DIST_PORT=", distributionPort),
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} " + arguments,
			"RABBITMQ_NODENAME=priority@localhost",
			"RABBITMQ_CONFIG_FILE=" + config,
			"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(s.dir, "none"), // not the machine's
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(s.dir, "plugins"),
			"RABBITMQ_MNESIA_BASE=" + filepath.Join(s.dir, "mnesia"),
			"RABBITMQ_LOG_BASE=" + filepath.Join(s.dir, "log"),
			"RUNNING_UNDER_SYSTEMD=true", // the script becomes the server instead of waiting for it
		}
		s.durable = func() bool { return quorumQueuesSaved(s.dir) }
		return s.run(ctx, command, syscall.SIGKILL, func() bool { return answers(port, amqpHeader, "\x01") })
	})
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

const amqpHeader = "AMQP\x00\x00\x09\x01"

func startOther(ctx context.Context, words []string, settings, arguments string) (*Server, error) {
	return start(ctx, 1, func(ctx context.Context, s *Server, ports []int) error {
		s.URL = fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", ports[0])
		data, config := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "rabbitmq.conf")
		if err := os.Mkdir(data, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
			return err
		}
		command := exec.Command(words[0], append(words[1:], fmt.Sprint(ports[0]))...)
		command.Env = append(os.Environ(), "DATA="+data, "CONF="+config, "ERLARGS="+arguments)
		return s.run(ctx, command, syscall.SIGKILL, func() bool { return answers(ports[0], amqpHeader, "\x01") })
	})
}
