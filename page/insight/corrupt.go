package insight

import (
	"context"
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
)

// corrupt says which key holds what it should not, and how to repair it.
func (i *Inspector) corrupt(ctx context.Context, customer string, reply redis.Error) error {
	key, want := i.Store.Key(customer), "a count (a whole number of at most 15 digits)"
	switch code, _, _ := strings.Cut(reply.Error(), " "); code {
	case "CORRUPTPENDING":
		key, want = i.Store.PendingKey(customer), "pending documents (a zset)"
	case "CORRUPTUSAGE":
		key, want = i.Store.UsageKey(customer), "a usage (a string of at most 15 digits)"
	}
	held := "something other than" // where this user may not call TYPE
	if kind, err := i.Client.Type(ctx, key).Result(); err == nil {
		held = "a " + kind + ", not"
	}
	reset := "priorityctl reset " + shellQuoted(customer)
	if i.prefix() != DefaultPrefix {
		reset += " -prefix " + shellQuoted(i.prefix())
	}
	return fmt.Errorf("%s: the key %s holds %s %s; to remove it: %s: %w",
		Shown(customer), Shown(key), held, want, reset, priority.ErrCorruptCount)
}
