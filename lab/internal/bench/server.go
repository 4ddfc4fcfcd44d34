package bench

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/testing/redistest"
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
