package python_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/redistest"
)

// A Celery app keeps the books with real workers on Redis and on RabbitMQ.
func TestCeleryKeepsTheBooks(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "redis, celery", "python3-redis python3-celery")
	for class, rabbitMQ := range map[string]func(t *testing.T) string{
		"OnRedis": func(*testing.T) string { return "" }, "OnRabbitMQ": startRabbitMQ,
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			env := []string{
				"PYTHONPATH=src:" + os.Getenv("PYTHONPATH"), "REDIS=" + redistest.Start(t).Addr, "RABBITMQ=" + rabbitMQ(t),
			}
			output := run(t, ".", env, interpreter, "-W", "error", "-W", "ignore::ResourceWarning", "-m", "unittest", "tests.celery_workers."+class)
			if !strings.HasSuffix(output, "\nOK\n") {
				t.Errorf("unittest:\n%s", output)
			}
		})
	}
}

// startRabbitMQ starts RabbitMQ, and the name server that Erlang needs, on free loopback ports,
// and returns its URL.
func startRabbitMQ(t *testing.T) string {
	t.Helper()
	// Debian's command on the PATH wants to be root; the script that it calls does not.
	program, names := "/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/lib/erlang/bin/epmd"
	if _, err := os.Stat(program); err != nil {
		redistest.Skip(t, "there is no "+program+": apt-get install rabbitmq-server")
	}
	port, distribution, nameServer := freePort(t), freePort(t), freePort(t)

	// Started by RabbitMQ it would outlive it.
	redistest.StartProgram(t, exec.Command(names, "-address", "127.0.0.1", "-port", nameServer))
	awaitAnswer(t, nameServer, "\x00\x01n")

	dir := t.TempDir()
	config := filepath.Join(dir, "rabbitmq.conf")
	check(t, os.WriteFile(config, fmt.Appendf(nil, "listeners.tcp.1 = 127.0.0.1:%s\n", port), 0o600))
	command := exec.Command(program)
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + dir, // for the cookie
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_EPMD_PORT=" + nameServer,
		"RABBITMQ_DIST_PORT=" + distribution,
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RABBITMQ_NODENAME=celery@localhost",
		"RABBITMQ_CONFIG_FILE=" + config,
		"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"), // not the machine's
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "mnesia"),
		"RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
		"RUNNING_UNDER_SYSTEMD=true", // the script becomes the server instead of waiting for it
	}
	redistest.StartProgram(t, command)
	awaitAnswer(t, port, "AMQP\x00\x00\x09\x01")
	return "amqp://guest:guest@127.0.0.1:" + port + "//"
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(t, err)
	return port
}

// awaitAnswer waits until a server answers a request.
func awaitAnswer(t *testing.T, port, request string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var dialer net.Dialer
	answered := func() bool {
		conn, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
		if err != nil {
			return false
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = conn.Write([]byte(request))
		if err != nil {
			return false
		}
		_, err = conn.Read(make([]byte, 1))
		return err == nil
	}
	for !answered() {
		select {
		case <-ctx.Done():
			t.Fatalf("no server answers at port %s", port)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
