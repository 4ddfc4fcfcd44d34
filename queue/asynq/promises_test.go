package priorityasynq

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/brokertest"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/queue"
)

func TestMain(m *testing.M) { brokertest.Main(m, subject) }

func TestPromises(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, subject)
}

func BenchmarkFlood(b *testing.B) { subject.Flood(b) }

var subject = &brokertest.Subject{
	Start: func(tb testing.TB) (brokertest.Broker, string) {
		server := redistest.Start(tb, "--appendonly", "yes", "--appendfsync", "always")
		return server, server.Addr
	},
	Open:   openQueue,
	Tries:  tries,
	Expire: expire,
}

const tries = 3

// program is what a team writes around a Client.
type program struct {
	*Client
	redis *redis.Client
}

func openQueue(_ context.Context, address string, store priority.Store) (brokertest.Queue, error) {
	redisClient := redis.NewClient(&redis.Options{Addr: address})
	client, err := NewClient(asynq.NewClientFromRedisClient(redisClient), store, "documents")
	return &program{client, redisClient}, err
}

func (p *program) Publish(ctx context.Context, customer, document string) error {
	_, err := p.Enqueue(ctx, customer, asynq.NewTask("convert", []byte(document)), Document(document), asynq.MaxRetry(tries-1))
	return err
}

func (p *program) Work(ctx context.Context, handle func(context.Context, string) error) error {
	middleware, err := Middleware(p.store)
	if err != nil {
		return err
	}
	mux := asynq.NewServeMux()
	mux.Use(middleware)
	mux.HandleFunc("convert", func(ctx context.Context, task *asynq.Task) error { return handle(ctx, string(task.Payload())) })
	server := asynq.NewServerFromRedisClient(p.redis, asynq.Config{
		Queues:         queue.AsynqQueues("documents", p.store.Last()),
		StrictPriority: true, Concurrency: 2, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: time.Second,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Millisecond },
	})
	if err := server.Start(mux); err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

func (p *program) Close() { _ = p.redis.Close() }

// expire moves the end of the leases of all documents in hand to a minute ago, because asynq
// waits for 30 s after a lease's end. It looks once a minute, and when a worker starts.
func expire(tb testing.TB, address string) {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	for _, name := range queue.Names("documents", 9) {
		key := fmt.Sprintf("asynq:{%s}:lease", name)
		for _, id := range client.ZRange(tb.Context(), key, 0, -1).Val() {
			client.ZAdd(tb.Context(), key, redis.Z{Member: id, Score: float64(time.Now().Add(-time.Minute).Unix())})
		}
	}
}
