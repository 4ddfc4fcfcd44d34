package python_test

import (
	"os"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/testing/brokertest"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// A Celery app keeps the books with real workers on Redis and on RabbitMQ.
func TestCeleryKeepsTheBooks(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "redis, celery", "python3-redis python3-celery")
	for class, rabbitMQ := range map[string]func(t *testing.T) string{
		"OnRedis":    func(*testing.T) string { return "" },
		"OnRabbitMQ": func(t *testing.T) string { return brokertest.StartRabbitMQ(t).URL },
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
