package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server of the benchmark's own, with an empty memory and
// nothing on disk.
type server struct {
	addr   string
	client *redis.Client // to look after it, not to be measured

	dir     string
	process *exec.Cmd
}

// startServer starts redis-server from the PATH, or the server named by the
// environment's REDIS_SERVER, and waits until it answers.
func (b *bench) startServer(ctx context.Context, args ...string) (_ *server, err error) {
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("%w: apt-get install redis-server", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "priority-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir}
	argv := append(b.pin.serverCommand(),
		path, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		"--logfile", "redis.log", "--save", "", "--appendonly", "no")
	s.process = exec.Command(argv[0], append(argv[1:], args...)...)
	endWithParent(s.process)
	if err := s.process.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.addr, DialerRetries: 1})
	err = await(ctx, "redis-server answers", func() bool { return s.client.Ping(ctx).Err() == nil })
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// stop ends the server and removes what it has written.
func (s *server) stop() {
	_ = s.client.Close()
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	_ = os.RemoveAll(s.dir)
}

// clear removes all keys.
func (s *server) clear(ctx context.Context) error { return s.client.FlushAll(ctx).Err() }

// info returns a section of INFO.
func (s *server) info(ctx context.Context, section string) (map[string]string, error) {
	sections, err := s.client.InfoMap(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	for _, fields := range sections { // there is one
		return fields, nil
	}
	return nil, fmt.Errorf("INFO %s: it is empty", section)
}

// scriptTimes returns the microseconds of each script that is run meanwhile, among
// at most so many commands.
func (s *server) scriptTimes(ctx context.Context, commands int, meanwhile func() error) (times samples, err error) {
	logSlowerThan := func(microseconds int) error {
		return s.client.ConfigSet(ctx, "slowlog-log-slower-than", strconv.Itoa(microseconds)).Err()
	}
	if err := s.client.ConfigSet(ctx, "slowlog-max-len", strconv.Itoa(commands)).Err(); err != nil {
		return nil, err
	}
	if err := s.client.Do(ctx, "slowlog", "reset").Err(); err != nil {
		return nil, err
	}
	if err := logSlowerThan(0); err != nil {
		return nil, err
	}
	if err := meanwhile(); err != nil {
		return nil, err
	}
	if err := logSlowerThan(-1); err != nil {
		return nil, err
	}
	entries, err := s.client.SlowLogGet(ctx, int64(commands)).Result()
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Args[0], "eval") {
			times = append(times, float64(entry.Duration.Microseconds()))
		}
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("the slow log has no script among %d commands", len(entries))
	}
	return times, nil
}

// freePort returns a loopback port that is free, as is the one 10,000 above it,
// which a cluster node uses too.
func freePort() (int, error) {
	const busOffset = 10_000
	for range 1000 {
		port, err := listenOnce(0)
		if err != nil {
			return 0, err
		}
		port -= busOffset
		if port < 1024 {
			continue
		}
		if _, err := listenOnce(port); err == nil {
			return port, nil
		}
	}
	return 0, errors.New("found no free port")
}

// listenOnce listens on a port, any if it is 0, and returns which.
func listenOnce(port int) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// await polls a condition until it holds, for half a minute at most.
func await(ctx context.Context, what string, condition func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, fmt.Errorf("waited 30 s in vain: %s", what))
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}
