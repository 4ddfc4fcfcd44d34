package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/redistest"
)

// server is a redis-server with an empty memory and nothing on disk.
type server struct {
	*redistest.Server
	client *redis.Client // to look after it, not to be measured
}

// startServer starts redis-server. The caller stops it.
func (b *bench) startServer(ctx context.Context) (*server, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	started := redistest.Start(b.tb)
	s := &server{started, redis.NewClient(&redis.Options{Addr: started.Addr})}
	info, err := s.info(ctx, "server")
	if err == nil {
		err = b.pin.moveServer(ctx, info["process_id"])
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// stop ends the server.
func (s *server) stop() {
	_ = s.client.Close()
	s.Kill()
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
