package insight

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
)

// resetCommand returns the command that resets a customer, for a POSIX shell. It
// escapes what a terminal or a line would change, and so name another customer.
func (i *Inspector) resetCommand(customer string) string {
	command := "priorityctl reset"
	if i.prefix() != DefaultPrefix {
		command += " -prefix " + shellQuoted(i.prefix())
	}
	switch {
	case !typable(customer):
		bytes := base64.StdEncoding.EncodeToString([]byte(customer))
		return fmt.Sprintf(`printf %%s '{"customer_base64":"%s"}' | %s -yes -from -`, bytes, command)
	case strings.HasPrefix(customer, "-"):
		command += " --"
	}
	return command + " " + shellQuoted(customer)
}

// corrupt says which key is corrupt, and how to repair it.
func (i *Inspector) corrupt(ctx context.Context, customer string, reply redis.Error) error {
	key, want := i.Store.Key(customer), "a count (a whole number of at most 15 digits)"
	switch code, _, _ := strings.Cut(reply.Error(), " "); code {
	case "CORRUPTPENDING":
		key, want = i.Store.PendingKey(customer), "pending documents (a zset)"
	case "CORRUPTUSAGE":
		key, want = i.Store.UsageKey(customer), "a usage (a string of at most 15 digits)"
	}
	if strings.Contains(reply.Error(), "a later version") { // a reset would take it from that version
		return fmt.Errorf("%s: %w: a later version wrote the key %s: use that version's priorityctl",
			Shown(customer), priority.ErrCorruptCount, Shown(key))
	}
	held := "something other than" // if this user may not call TYPE
	if kind, err := i.Client.Type(ctx, key).Result(); err == nil {
		held = "a " + kind + ", not"
	}
	return fmt.Errorf("%s: %w: the key %s holds %s %s; to remove it: %s",
		Shown(customer), priority.ErrCorruptCount, Shown(key), held, want, i.resetCommand(customer))
}
