package bench

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// memoryOfCustomers returns how many bytes Redis keeps for each of the customers,
// after one decision.
func (s *server) memoryOfCustomers(ctx context.Context, callers int, customers []string, decide decide) (float64, error) {
	// A script's first run takes memory for itself.
	if err := freed.Run(ctx, s.client, nil).Err(); err != nil {
		return 0, err
	}
	if err := decideAll(ctx, callers, customers, decide); err != nil {
		return 0, err
	}
	bytes, err := freed.Run(ctx, s.client, nil).Float64()
	return bytes / float64(len(customers)), err
}

// freed removes all keys and returns how many bytes less Redis uses then. In a
// script nothing else, such as the buffers of clients, changes meanwhile.
var freed = redis.NewScript(`
	local function used()
		return tonumber(string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)'))
	end
	local before = used()
	redis.call('FLUSHALL', 'SYNC')
	return before - used()
`)
