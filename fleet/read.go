package fleet

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
)

const (
	lasts    = 30 * time.Second // as in lua/report.lua
	perMGet  = 100              // reports, so that no command holds Redis for long
	maxReads = 100_000          // reports
)

// membersScript returns Redis's time in milliseconds, and the reports' ids with their ends.
// As a script it is run by the master, whatever the client reads from replicas.
const membersScript = `local time = redis.call('TIME')
return {string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)), redis.call('ZRANGE', KEYS[1], 0, ARGV[1], 'WITHSCORES')}`

// Read returns the reports of all processes that share a prefix, in two round trips. The
// empty prefix is "priority". A report that cannot be read has an Err, and no numbers.
func Read(ctx context.Context, client priority.RedisClient, prefix string) ([]Report, error) {
	if typednil.Is(client) {
		return nil, fmt.Errorf("%w: the client is nil", priority.ErrInvalidOption)
	}
	prefix = cmp.Or(prefix, defaultPrefix)
	found, err := members(ctx, client, prefix)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	texts, err := textsOf(ctx, client, prefix, found)
	if err != nil {
		return nil, err
	}
	var reports []Report
	for i, text := range texts {
		if text, ok := text.(string); ok { // else it has ended
			reports = append(reports, found[i].read(text))
		}
	}
	return reports, nil
}

// member is a process that has written a report.
type member struct {
	id  string
	age time.Duration
}

// members returns who has written a report lately.
func members(ctx context.Context, client priority.RedisClient, prefix string) ([]member, error) {
	key := keyOf(prefix, "members")
	cmd := redis.NewSliceCmd(ctx, "eval", membersScript, 1, key, maxReads-1)
	cmd.SetFirstKeyPos(3)
	_ = client.Process(ctx, cmd)
	reply, err := cmd.Result()
	if err != nil {
		return nil, fmt.Errorf("fleet: cannot read %q: %w", key, err)
	}
	var now int64
	var ids []any
	if len(reply) == 2 {
		text, _ := reply[0].(string)
		now, _ = strconv.ParseInt(text, 10, 64)
		ids, _ = reply[1].([]any)
	}
	var found []member
	for i := 0; i+1 < len(ids); i += 2 {
		id, _ := ids[i].(string)
		text, _ := ids[i+1].(string)
		end, _ := strconv.ParseFloat(text, 64)
		left := time.Duration(int64(end)-now) * time.Millisecond
		found = append(found, member{id, min(max(lasts-left, 0), lasts)})
	}
	return found, nil
}

// textsOf returns what the reports' keys hold: strings, or nil.
func textsOf(ctx context.Context, client priority.RedisClient, prefix string, found []member) ([]any, error) {
	pipe := client.Pipeline()
	var pages []*redis.SliceCmd
	for from := 0; from < len(found); from += perMGet {
		args := []any{"mget"}
		for _, m := range found[from:min(from+perMGet, len(found))] {
			args = append(args, keyOf(prefix, m.id))
		}
		page := redis.NewSliceCmd(ctx, args...)
		_ = pipe.Process(ctx, page)
		pages = append(pages, page)
	}
	_, failed := pipe.Exec(ctx)
	var texts []any
	for _, page := range pages {
		if err := cmp.Or(page.Err(), failed); err != nil {
			return nil, fmt.Errorf("fleet: cannot read the reports of %q: %w", prefix, err)
		}
		texts = append(texts, page.Val()...)
	}
	if len(texts) != len(found) {
		return nil, fmt.Errorf("fleet: %d replies for %d reports of %q", len(texts), len(found), prefix)
	}
	return texts, nil
}

// read reads a member's report.
func (m member) read(text string) Report {
	var r Report
	var err error
	if len(text) > maxReadBytes {
		err = fmt.Errorf("fleet: no report: %d bytes", len(text))
	} else {
		err = r.UnmarshalJSON([]byte(text))
	}
	if err != nil {
		return Report{ID: m.id, Age: m.age, Err: err}
	}
	r.ID, r.Age = m.id, m.age
	return r
}
