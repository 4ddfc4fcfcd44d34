package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// StartRabbitMQ starts rabbitmq-server, and the name server that Erlang needs.
func StartRabbitMQ(ctx context.Context) (*Server, error) {
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
	return start(ctx, func(ctx context.Context, s *Server) error {
		ports, err := freePorts(3)
		if err != nil {
			return err
		}
		port, distributionPort, nameServerPort := ports[0], ports[1], ports[2]
		s.URL = fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", port)

		// Started by RabbitMQ it would be a daemon, and outlive it.
		names, err := s.run(exec.Command(nameServer, "-address", "127.0.0.1", "-port", fmt.Sprint(nameServerPort)), syscall.SIGKILL)
		if err != nil {
			return err
		}
		if err := names.await(ctx, func() bool { return answers(nameServerPort, "\x00\x01n", "\x00") }); err != nil {
			return err
		}

		config := filepath.Join(s.dir, "rabbitmq.conf")
		if err := os.WriteFile(config, fmt.Appendf(nil, "listeners.tcp.1 = 127.0.0.1:%d\n", port), 0o600); err != nil {
			return err
		}
		command := exec.Command(program)
		command.Env = []string{
			"PATH=" + os.Getenv("PATH"),
			"HOME=" + s.dir, // for the cookie
			"ERL_EPMD_ADDRESS=127.0.0.1",
			fmt.Sprint("ERL_EPMD_PORT=", nameServerPort),
			fmt.Sprint("RABBITMQ_DIST_PORT=", distributionPort),
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
			"RABBITMQ_NODENAME=priority@localhost",
			"RABBITMQ_CONFIG_FILE=" + config,
			"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(s.dir, "none"), // not the machine's
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(s.dir, "plugins"),
			"RABBITMQ_MNESIA_BASE=" + filepath.Join(s.dir, "mnesia"),
			"RABBITMQ_LOG_BASE=" + filepath.Join(s.dir, "log"),
			"RUNNING_UNDER_SYSTEMD=true", // the script becomes the server instead of waiting for it
		}
		p, err := s.run(command, syscall.SIGKILL)
		if err != nil {
			return err
		}
		return p.await(ctx, func() bool { return answers(port, "AMQP\x00\x00\x09\x01", "\x01") })
	})
}
