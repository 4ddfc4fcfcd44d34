package insight

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight/census"
	"github.com/redis/go-redis/v9"
)

// corruptions are what Peek may say of a customer's keys, in the order of
// [Inspector.keys].
var corruptions = []struct{ code, held, want string }{
	{"CORRUPTCOUNT", "a corrupt count", "a count (a whole number of at most 15 digits)"},
	{"CORRUPTPENDING", "corrupt pending documents", "pending documents (a zset)"},
	{"CORRUPTUSAGE", "a corrupt usage", "a usage (a string of at most 15 digits)"},
}

// damage is a corrupt key.
type damage struct {
	key, held, want string
}

// peek returns what Redis holds of a customer as if the corrupt keys were absent, and
// these keys. An error is for an operator; a key that a later version wrote is one too.
func (i *Inspector) peek(ctx context.Context, customer string) (priority.State, []damage, error) {
	known, err := i.Store.Peek(ctx, customer)
	var damaged []damage
	if errors.Is(err, priority.ErrCorruptCount) {
		known, damaged, err = i.peekBeside(ctx, customer)
	}
	switch {
	case err == nil, errors.Is(err, priority.ErrInvalid):
		return known, damaged, err
	case Forbidden(err):
		return known, nil, fmt.Errorf("%s: %w; it needs %s on the keys ~%s:*", Shown(customer), census.Cause(err), PeekRights, i.prefix())
	}
	return known, nil, fmt.Errorf("%s: %w", Shown(customer), census.Cause(err))
}

// peekBeside runs Peek's script with keys that do not exist in place of corrupt ones.
func (i *Inspector) peekBeside(ctx context.Context, customer string) (known priority.State, damaged []damage, err error) {
	keys := append(i.keys(customer), i.Store.OverrideKey(customer))
	for range keys {
		var reply []int64
		if reply, err = i.Client.Eval(ctx, i.Store.PeekScript(customer), keys).Int64Slice(); err == nil {
			return peeked(reply), damaged, nil
		}
		at := slices.IndexFunc(corruptions, func(c struct{ code, held, want string }) bool { return redis.HasErrorPrefix(err, c.code) })
		switch {
		case at < 0:
			return known, nil, err
		case strings.Contains(err.Error(), "a later version"):
			return known, nil, fmt.Errorf("%w: a later version wrote the key %s: use that version's priorityctl", priority.ErrCorruptCount, Shown(keys[at]))
		}
		damaged = append(damaged, damage{keys[at], corruptions[at].held, corruptions[at].want})
		keys[at] += ":absent"
	}
	return known, nil, err
}

// peeked reads a reply of lua/peek.lua, which says what each number is.
func peeked(r []int64) priority.State {
	ms := func(n int64) time.Duration { return milliseconds(max(n, 0)) }
	s := priority.State{
		Rule: priority.Rule(r[0]), Level: priority.Level(r[1]), NextLevel: priority.Level(r[2]), Count: r[3], ResetIn: ms(r[4]),
		Load: float64(r[5]) / 1e6, Lately: float64(r[6]) / 1000, Cost: float64(r[7]) / 1000, Pending: r[8], PendingLast: r[9],
		Oldest: ms(r[10]), Sojourn: ms(r[11]), Lease: ms(r[12]), Ruled: priority.Level(r[13]),
	}
	if s.Ruled > 0 {
		s.Override = priority.Override{Earliest: priority.Level(r[14]), Latest: priority.Level(r[15])}
		s.OverrideEndsIn = ms(r[16])
	}
	return s
}

// corrupt is the error for a customer with a corrupt key that its next document needs.
func (i *Inspector) corrupt(ctx context.Context, customer string, known priority.State, damaged []damage) error {
	rest := i.heldOf(customer, known)
	if override, err := i.OverrideOf(ctx, customer); err == nil && override != nil {
		rest = append(rest, override.Says)
	}
	for _, other := range damaged[1:] {
		rest = append(rest, other.held)
	}
	remedy := "to remove it: " + i.CommandFor(customer, "reset")
	if len(rest) > 0 {
		remedy = fmt.Sprintf("beside it there is %s; to remove only this key: %s", strings.Join(rest, ", "), unlinkCommand(damaged[0].key))
	}
	return fmt.Errorf("%s: %w: %s; %s", Shown(customer), priority.ErrCorruptCount, i.found(ctx, damaged[0]), remedy)
}

// found says what a corrupt key holds.
func (i *Inspector) found(ctx context.Context, d damage) string {
	held := "something other than" // if this user may not call TYPE
	if kind, err := i.Client.Type(ctx, d.key).Result(); err == nil {
		held = "a " + kind + ", not"
	}
	return fmt.Sprintf("the key %s holds %s %s", Shown(d.key), held, d.want)
}

// Command returns a command of priorityctl, such as "override list", for a POSIX shell.
func (i *Inspector) Command(command string) string {
	command = "priorityctl " + command
	if i.prefix() != DefaultPrefix {
		command += " -prefix " + ShellQuoted(i.prefix())
	}
	return command
}

// CommandFor returns a command about a customer. It escapes what a terminal or a line
// would change, and so name another customer.
func (i *Inspector) CommandFor(customer, command string) string {
	line := i.Command(command)
	switch {
	case !typable(customer):
		if strings.HasPrefix(command, "reset") {
			line += " -yes" // nobody can be asked
		}
		bytes := base64.StdEncoding.EncodeToString([]byte(customer))
		return fmt.Sprintf(`printf %%s '{"customer_base64":"%s"}' | %s -from -`, bytes, line)
	case strings.HasPrefix(customer, "-"):
		line += " --"
	}
	return line + " " + ShellQuoted(customer)
}

// unlinkCommand returns the command that removes a key, for a POSIX shell. Where the
// variable is not set it fails, and so removes nothing from the server on localhost.
func unlinkCommand(key string) string {
	const redisCLI = `redis-cli -u "$PRIORITY_REDIS_URL"`
	if !typable(key) {
		return fmt.Sprintf("echo %s | base64 -d | %s -x unlink", base64.StdEncoding.EncodeToString([]byte(key)), redisCLI)
	}
	return redisCLI + " unlink " + ShellQuoted(key)
}
