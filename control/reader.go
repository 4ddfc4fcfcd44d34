package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/script"
)

var (
	// ErrCorruptDocument: the key named in the message holds something other than what
	// operators have set.
	ErrCorruptDocument = errors.New("control: corrupt document")

	// ErrNewerDocument: the document was written by a later version of this module.
	ErrNewerDocument = errors.New("control: the document is of a later version of the module")
)

const (
	// pageItems is how many items of the document one command reads, so that none
	// holds Redis for a millisecond.
	pageItems = 500

	// maxChanges is how many changes are read one by one; after more, all is read.
	maxChanges = 1000

	// maxReads is how often a document is read that changes meanwhile.
	maxReads = 10
)

// reader reads the document of one prefix.
type reader struct {
	client priority.RedisClient
	runner *script.Runner
	prefix string
}

func newReader(client priority.RedisClient, prefix string) reader {
	return reader{client: client, runner: script.NewRunner(client), prefix: prefix}
}

func (r *reader) key(name string) string { return r.prefix + ":{control}:" + name }

// head is what tells whether something was changed.
type head struct {
	version, token int64
	now            time.Time // by Redis's clock
	asked, seen    time.Time // by this process's, before the question and after the answer
}

// redisTime is the time by Redis's clock, as far as this process can tell.
func (h head) redisTime() time.Time { return h.now.Add(time.Since(h.seen)) }

// head asks for the version and for Redis's time, by commands that a user may run who
// may not write. An error wraps [ErrCorruptDocument] or [ErrNewerDocument], or it is
// what kept Redis from answering.
func (r *reader) head(ctx context.Context) (head, error) {
	key, asked := r.key("document"), time.Now()
	fields := redis.NewSliceCmd(ctx, "HMGET", key, "format", "version", "token")
	clock := redis.NewTimeCmd(ctx, "TIME")
	pipe := r.client.Pipeline()
	_ = pipe.Process(ctx, fields)
	if node := r.nodeOf(ctx, key); node != nil {
		_ = node.Process(ctx, clock)
	} else {
		_ = pipe.Process(ctx, clock)
	}
	_, failed := pipe.Exec(ctx) // which alone knows of a login that was refused
	if err := cmp.Or(failed, fields.Err(), clock.Err()); err != nil {
		return head{}, readFailed(key, err)
	}
	h := head{now: clock.Val(), asked: asked, seen: time.Now()}
	held := fields.Val()
	if len(held) != 3 {
		return head{}, fmt.Errorf("%w: an odd reply to HMGET %q", ErrCorruptDocument, key)
	}
	if held[0] == nil && held[1] == nil && held[2] == nil {
		return h, nil
	}
	var its int64 // its format
	for i, number := range []*int64{&its, &h.version, &h.token} {
		text, _ := held[i].(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return head{}, fmt.Errorf("%w: %q has a format, version or token of %.40q", ErrCorruptDocument, key, text)
		}
		if *number = n; its > format {
			return head{}, fmt.Errorf("%w: %q has format %d, not %d", ErrNewerDocument, key, its, format)
		}
	}
	return h, nil
}

// nodeOf returns the node of a cluster on which a key lives, nil where the client does
// not tell nodes apart. All nodes have clocks, and only this one's counts.
func (r *reader) nodeOf(ctx context.Context, key string) *redis.Client {
	if c, ok := r.client.(interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}); ok {
		if node, err := c.MasterForKey(ctx, key); err == nil {
			return node
		}
	}
	return nil
}

func readFailed(key string, err error) error {
	if strings.Contains(err.Error(), "CORRUPT") || strings.Contains(err.Error(), "wrong kind of value") {
		return fmt.Errorf("%w: %q: %w", ErrCorruptDocument, key, err)
	}
	return fmt.Errorf("control: cannot read %q: %w", key, err)
}

// since returns the document of a head, from an earlier one and the changes since.
// ok is false where these are not all known any more.
func (r *reader) since(ctx context.Context, d *Document, h head) (_ *Document, ok bool, err error) {
	if d.Version == 0 || h.version <= d.Version || h.version-d.Version > maxChanges {
		return nil, false, nil
	}
	entries, err := r.between(ctx, d.Version, h.version)
	if errors.Is(err, ErrCorruptDocument) { // what holds does not depend on the log
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	// The first is the last that is known; and it is not, after a failover.
	if len(entries) == 0 || entries[0].Version != d.Version || entries[0].token != d.token {
		return nil, false, nil
	}
	next := d.clone()
	next.prune(h.now)
	for _, e := range entries[1:] {
		if e.after != next.token { // the document was lost, and another one began
			return nil, false, nil
		}
		if err := next.set(e.item, e.stored); err != nil {
			return nil, false, nil
		}
		next.Version, next.token = e.Version, e.token
	}
	return next, next.Version == h.version && next.token == h.token, nil
}

// catchUp returns the document as it is, from one that is known.
func (r *reader) catchUp(ctx context.Context, known *Document, h head) (*Document, head, error) {
	for range maxReads {
		if known.Version == h.version && known.token == h.token {
			return known, h, nil
		}
		next, ok, err := r.since(ctx, known, h)
		if err == nil && !ok {
			next, err = r.all(ctx, h)
		}
		if err != nil {
			return nil, h, err
		}
		// Something may have changed while it was read.
		known = next
		if h, err = r.head(ctx); err != nil {
			return nil, h, err
		}
	}
	return nil, h, fmt.Errorf("control: %q changes faster than it can be read", r.key("document"))
}

// all reads the whole document, in steps, and so perhaps items of later versions too.
func (r *reader) all(ctx context.Context, h head) (*Document, error) {
	d := &Document{Version: h.version, token: h.token}
	key := r.key("document")
	scanned := map[string]string{"version": "0", "token": "0"}
	for cursor, first := "0", true; cursor != "0" || first; first = false {
		page := redis.NewSliceCmd(ctx, "HSCAN", key, cursor, "COUNT", pageItems)
		_ = r.client.Process(ctx, page)
		reply, err := page.Result()
		if err != nil {
			return nil, readFailed(key, err)
		}
		var fields []any
		if len(reply) == 2 {
			cursor, _ = reply[0].(string)
			fields, _ = reply[1].([]any)
		}
		for i := 0; i+1 < len(fields); i += 2 {
			name, _ := fields[i].(string)
			stored, _ := fields[i+1].(string)
			if _, ok := scanned[name]; ok {
				scanned[name] = stored
			}
			if err := d.set(name, stored); err != nil {
				return nil, fmt.Errorf("%w (%q)", err, key)
			}
		}
		if cursor == "" {
			return nil, fmt.Errorf("%w: an odd reply to HSCAN %q", ErrCorruptDocument, key)
		}
	}
	// It may be of a later version, but a replica that lags would show an earlier one.
	version, _ := strconv.ParseInt(scanned["version"], 10, 64)
	if version < h.version || version == h.version && scanned["token"] != strconv.FormatInt(h.token, 10) {
		return nil, fmt.Errorf("control: a server showed version %d of %q, which has version %d", version, key, h.version)
	}
	return d, nil
}

// between returns the entries of the log from one version to another.
func (r *reader) between(ctx context.Context, from, to int64) ([]Entry, error) {
	return r.entries(ctx, "XRANGE", strconv.FormatInt(from, 10), strconv.FormatInt(to, 10), maxChanges+1)
}

// newest returns the last entries of the log up to a version, the newest first.
func (r *reader) newest(ctx context.Context, upTo, most int64) ([]Entry, error) {
	last := "+"
	if upTo > 0 {
		last = strconv.FormatInt(upTo, 10)
	}
	return r.entries(ctx, "XREVRANGE", last, "-", most)
}

func (r *reader) entries(ctx context.Context, command, from, to string, most int64) ([]Entry, error) {
	key := r.key("log")
	cmd := redis.NewXMessageSliceCmd(ctx, command, key, from, to, "COUNT", most)
	_ = r.client.Process(ctx, cmd)
	messages, err := cmd.Result()
	if err != nil {
		return nil, readFailed(key, err)
	}
	entries := make([]Entry, 0, len(messages))
	for _, message := range messages {
		entry, err := entryOf(message)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrCorruptDocument, key, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}
