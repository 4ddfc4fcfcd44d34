package control

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/lua"
)

// keys are the operators' keys of one prefix, all in one slot.
type keys struct{ version, rules, history, overrides, log, logCopy, logCopying string }

func keysOf(prefix string) keys {
	key := func(name string) string { return prefix + ":{control}:" + name }
	return keys{key("version"), key("rules"), key("history"), key("overrides"), key("log"), key("log-copy"), key("log-copying")}
}

// reading is a script that reads. The master runs it, wherever the client sends its
// reads.
type reading struct{ text, digest string }

func newReading(text string) reading {
	sum := sha1.Sum([]byte(text))
	return reading{text, hex.EncodeToString(sum[:])}
}

var (
	followScript = newReading(lua.Follow)

	// {Redis's time in milliseconds, what the command ARGV replies}
	readScript = newReading(`local time = redis.call('TIME')
return {time[1] * 1000 + math.floor(time[2] / 1000), redis.call(unpack(ARGV))}
`)
)

// run runs the script, whose reply is a list. An error wraps [ErrCorrupt], or what kept
// Redis from answering, and names the first key.
func (s reading) run(ctx context.Context, client priority.RedisClient, keys []string, args ...any) ([]any, error) {
	call := func(name, script string) ([]any, error) {
		line := []any{name, script, len(keys)}
		for _, key := range keys {
			line = append(line, key)
		}
		cmd := redis.NewSliceCmd(ctx, append(line, args...)...)
		_ = client.Process(ctx, cmd)
		return cmd.Result()
	}
	reply, err := call("evalsha", s.digest)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = call("eval", s.text)
	}
	switch {
	case err == nil && len(reply) == 0:
		return nil, fmt.Errorf("%w: %q: the reply is empty", ErrCorrupt, keys[0])
	case err == nil:
		return reply, nil
	case strings.Contains(err.Error(), "CORRUPT ") || strings.Contains(err.Error(), "wrong kind of value"):
		return nil, fmt.Errorf("%w: %q: %w", ErrCorrupt, keys[0], err)
	}
	return nil, fmt.Errorf("control: cannot read %q: %w", keys[0], err)
}

// read runs a script until ctx ends.
func (a *Admin) read(ctx context.Context, s reading, keys []string, args ...any) (reply []any, err error) {
	var found []any
	err = a.inTime(ctx, func() (err error) {
		found, err = s.run(ctx, a.client, keys, args...)
		return err
	})
	if err != nil { // it may still be under way
		return nil, err
	}
	return found, nil
}

// ask runs one command that reads a key, and returns Redis's time in milliseconds too.
func (a *Admin) ask(ctx context.Context, command, key string, args ...any) (now int64, reply any, err error) {
	both, err := a.read(ctx, readScript, []string{key}, append([]any{command, key}, args...)...)
	if err != nil {
		return 0, nil, err
	}
	now, _ = both[0].(int64)
	if len(both) > 1 {
		reply = both[1]
	}
	return now, reply, nil
}

// mostUnderWay is how many commands, other than changes, may be under way if Redis hangs
// and the client ignores deadlines.
const mostUnderWay = 64

// inTime waits for commands until ctx ends, whatever the client's own timeouts are. They
// may still be under way then.
func (a *Admin) inTime(ctx context.Context, send func() error) error {
	if ctx.Done() == nil {
		return send()
	}
	done := make(chan error, 1)
	select {
	case a.underWay <- struct{}{}:
		go func() {
			defer func() { <-a.underWay }()
			done <- send()
		}()
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("control: no answer came: %w", ctx.Err())
	}
}

// textsOf returns the strings of a list reply.
func textsOf(reply any) []string {
	list, _ := reply.([]any)
	texts := make([]string, len(list))
	for i, entry := range list {
		texts[i], _ = entry.(string)
	}
	return texts
}
