package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// redisAddress is where the documents have a Redis.
const redisAddress = "127.0.0.1:6379"

// portIsFree says whether a Redis can be started there.
func portIsFree() error {
	listener, err := net.Listen("tcp", redisAddress)
	if err != nil {
		return fmt.Errorf("%w: the documents want an empty Redis there; stop what listens", err)
	}
	return listener.Close()
}

// onRedis starts an empty Redis where the documents have one, does something, and
// ends the server.
func onRedis[T any](ctx context.Context, do func() (T, error)) (result T, err error) {
	if err := portIsFree(); err != nil {
		return result, err
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return result, errors.New("redis-server is not on the PATH: apt-get install redis-server")
	}
	dir, err := os.MkdirTemp("", "release-redis-")
	if err != nil {
		return result, err
	}
	defer os.RemoveAll(dir)
	server := exec.Command(program, "--bind", "127.0.0.1", "--port", "6379", "--save", "", "--dir", dir)
	if err := server.Start(); err != nil {
		return result, err
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}()
	if err := answers(ctx); err != nil {
		return result, err
	}
	return do()
}

// answers waits until the Redis takes commands.
func answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		if pong() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer on %s: %w", redisAddress, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func pong() bool {
	connection, err := net.DialTimeout("tcp", redisAddress, time.Second)
	if err != nil {
		return false
	}
	defer connection.Close()
	answer := make([]byte, 5)
	_ = connection.SetDeadline(time.Now().Add(time.Second))
	_, err = connection.Write([]byte("PING\r\n"))
	if err == nil {
		_, err = connection.Read(answer)
	}
	return err == nil && string(answer) == "+PONG"
}
