package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
)

const (
	perScript = 100     // reports, so that no command blocks Redis for long
	maxReads  = 100_000 // reports
)

// membersScript returns the listed ids. The master runs a script even if the client
// reads from replicas.
const membersScript = `local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
return redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, ARGV[1])`

// Read returns the reports of all processes that share a prefix, in two round trips,
// including processes killed within the last hour. Prefix "" means "priority". A report
// that cannot be read has an Err, and no numbers.
func Read(ctx context.Context, client priority.RedisClient, prefix string) ([]Report, error) {
	if typednil.Is(client) {
		return nil, fmt.Errorf("%w option: the client is nil", priority.ErrInvalid)
	}
	prefix = cmp.Or(prefix, defaultPrefix)
	ids, err := members(ctx, client, prefix)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	found, err := textsOf(ctx, client, prefix, ids)
	if err != nil {
		return nil, err
	}
	reports, workers := make([]Report, len(found)), runtime.GOMAXPROCS(0) // which may change
	var reading sync.WaitGroup
	for part := range workers { // a thousand reports are 10 MB of JSON
		reading.Go(func() {
			for i := part; i < len(found); i += workers {
				reports[i] = found[i].report()
			}
		})
	}
	reading.Wait()
	return reports, nil
}

// Emptied returns when a process last found that Redis had lost its data, by Redis's clock;
// zero: not within a day. Prefix "" means "priority".
func Emptied(ctx context.Context, client priority.RedisClient, prefix string) (time.Time, error) {
	key := keyOf(cmp.Or(prefix, defaultPrefix), "emptied")
	cmd := redis.NewStringCmd(ctx, "get", key)
	_ = client.Process(ctx, cmd)
	at, err := cmd.Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("fleet: cannot read %q: %w", key, err)
	}
	return time.UnixMilli(at), nil
}

// members returns the ids of the processes with a recent report.
func members(ctx context.Context, client priority.RedisClient, prefix string) ([]string, error) {
	key := keyOf(prefix, "members")
	cmd := redis.NewStringSliceCmd(ctx, "eval", membersScript, 1, key, maxReads)
	cmd.SetFirstKeyPos(3)
	_ = client.Process(ctx, cmd)
	ids, err := cmd.Result()
	if err != nil {
		return nil, fmt.Errorf("fleet: cannot read %q: %w", key, err)
	}
	return ids, nil
}

// reportsScript returns the texts of reports, then the milliseconds until each expires.
// The master runs it too.
const reportsScript = `local found = redis.call('MGET', unpack(KEYS))
for i, key in ipairs(KEYS) do
  found[#KEYS + i] = redis.call('PTTL', key)
end
return found`

// found is a report as Redis holds it.
type found struct {
	id, text string
	age      time.Duration
}

// textsOf returns the reports that exist.
func textsOf(ctx context.Context, client priority.RedisClient, prefix string, ids []string) ([]found, error) {
	pipe := client.Pipeline()
	var pages []*redis.SliceCmd
	for page := range slices.Chunk(ids, perScript) {
		args := []any{"eval", reportsScript, len(page)}
		for _, id := range page {
			args = append(args, keyOf(prefix, id))
		}
		cmd := redis.NewSliceCmd(ctx, args...)
		cmd.SetFirstKeyPos(3)
		_ = pipe.Process(ctx, cmd)
		pages = append(pages, cmd)
	}
	_, failed := pipe.Exec(ctx)
	var reports []found
	for page := range slices.Chunk(ids, perScript) {
		cmd := pages[0]
		pages = pages[1:]
		if err := cmp.Or(cmd.Err(), failed); err != nil {
			return nil, fmt.Errorf("fleet: cannot read the reports of %q: %w", prefix, err)
		}
		reply := cmd.Val()
		if len(reply) != 2*len(page) {
			return nil, fmt.Errorf("fleet: %d replies for %d reports of %q", len(reply), len(page), prefix)
		}
		for i, id := range page {
			text, ok := reply[i].(string)
			left, _ := reply[len(page)+i].(int64)
			if ok { // else it has expired
				age := lasts - time.Duration(left)*time.Millisecond
				reports = append(reports, found{id, text, min(max(age, 0), lasts)})
			}
		}
	}
	return reports, nil
}

func (f found) report() Report {
	var r Report
	var err error
	if len(f.text) > maxReadBytes {
		err = fmt.Errorf("fleet: bad report: %d bytes", len(f.text))
	} else {
		err = r.UnmarshalJSON([]byte(f.text))
	}
	if err != nil {
		return Report{ID: f.id, Age: f.age, Err: err}
	}
	r.ID, r.Age = f.id, f.age
	return r
}
