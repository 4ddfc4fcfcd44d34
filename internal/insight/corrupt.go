package insight

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight/census"
)

// errLater: a later version of the module wrote the key, which is not corrupt for it.
var errLater = errors.New("use that version's priorityctl")

// peek returns what Redis holds of a customer. An error is for an operator: of a corrupt key
// it says what the key holds, and how to remove it.
func (i *Inspector) peek(ctx context.Context, customer string) (priority.State, error) {
	known, err := i.Store.Peek(ctx, customer)
	switch keys := i.Store.Keys(customer); {
	case err == nil, errors.Is(err, priority.ErrInvalid):
		return known, err
	case Forbidden(err):
		return known, fmt.Errorf("%s: %w; it needs %s on the keys ~%s:*", Shown(customer), census.Cause(err), PeekRights, i.prefix())
	case !errors.Is(err, priority.ErrCorrupt):
		return known, fmt.Errorf("%s: %w", Shown(customer), census.Cause(err))
	case strings.Contains(err.Error(), "a later version"):
		return known, fmt.Errorf("%s: %w: a later version wrote the key %s: %w", Shown(customer), priority.ErrCorrupt, Shown(keys.Pending), errLater)
	case strings.Contains(err.Error(), "CORRUPTCOUNT "):
		return known, i.corrupt(ctx, customer, keys.Count, "a count (a whole number of at most 15 digits)")
	default:
		return known, i.corrupt(ctx, customer, keys.Pending, "pending documents")
	}
}

// corrupt is the error for a customer with a corrupt key.
func (i *Inspector) corrupt(ctx context.Context, customer, key, want string) error {
	held := "something other than" // if this user may not call TYPE
	if kind, err := i.Client.Type(ctx, key).Result(); err == nil {
		held = "a " + kind + ", not"
	}
	return fmt.Errorf("%s: %w: the key %s holds %s %s; to forget all that is known of the customer: %s; to remove only this key: %s",
		Shown(customer), priority.ErrCorrupt, Shown(key), held, want, i.CommandFor(customer, "reset"), unlinkCommand(key))
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
