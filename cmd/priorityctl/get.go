package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/report"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

const getLong = `Get tells a customer's level and why it is so, and what the next document gets:
by Next, which goes by the count, and by Submit, which goes by what was submitted
lately and what is pending. It changes nothing.

  priorityctl get acme
  priorityctl get acme 'Müller & Co' -json
  priorityctl get -policy gold.json acme      # a customer of a tier of its own

The levels are those of the policy that you name, and the lease is that of a
fleet that sets none: Redis does not know what the fleet has.`

func newGet() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var asJSON bool
	command := &cobra.Command{
		Use:               "get CUSTOMER…",
		Short:             "Tells why a customer is slow, and until when",
		Long:              getLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = connected(&connect, &policies, func(command *cobra.Command, c *connection, customers []string) error {
		return eachCustomer(command, c, customers, asJSON, func(ctx context.Context, customer string) (any, error) {
			return c.lookup(ctx, customer)
		})
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a customer")
	connect.register(command)
	policies.register(command)
	return command
}

// eachCustomer does something for each customer and prints the result, or the
// failure on stderr. With -json, failures are printed as results are.
func eachCustomer(command *cobra.Command, c *connection, customers []string, asJSON bool, do func(ctx context.Context, customer string) (any, error)) error {
	ctx, out := command.Context(), command.OutOrStdout()
	failed := 0
	for i, customer := range customers {
		if ctx.Err() != nil {
			break
		}
		result, err := do(ctx, customer)
		var invalid bool
		if err != nil {
			failed++
			invalid = errors.Is(err, priority.ErrInvalid)
			err = c.hidden(err)
			if lost(err) {
				err = fmt.Errorf("cannot reach %s any more: %w", c.target, err)
			}
		}
		switch {
		case err != nil && asJSON:
			if err := writeJSON(out, failure{nameOf(customer), oneLine(err)}); err != nil {
				return err
			}
		case err != nil:
			fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s\n", oneLine(err))
		case asJSON:
			if err := writeJSON(out, result); err != nil {
				return err
			}
		default:
			if i > 0 && strings.Contains(fmt.Sprint(result), "\n") {
				fmt.Fprintln(out)
			}
			if _, err := fmt.Fprintln(out, result); err != nil {
				return err
			}
		}
		if lost(err) && !invalid {
			return statusError{exitUnreachable, nil}
		}
		if invalid && len(customers) == 1 {
			return statusError{exitUsage, nil}
		}
	}
	return failures(ctx, failed, len(customers))
}

type failure struct {
	name
	Error string `json:"error"`
}

// state is what get tells of a customer.
type state struct {
	name
	Level     priority.Level `json:"level"` // by Submit where something is pending, else by Next
	Pending   int64          `json:"pending"`
	Submit    submitted      `json:"submit"`
	Count     int64          `json:"count"`
	Documents int64          `json:"documents"` // since the last reset
	RuleLevel priority.Level `json:"rule_level"`
	NextLevel priority.Level `json:"next_level"` // that Next would give to the next document
	Row       string         `json:"row"`
	Counted   bool           `json:"counted"` // there is a count
	ResetInMS int64          `json:"reset_in_ms"`
	NoTTL     bool           `json:"no_ttl"`

	CountKey   string     `json:"count_key"`
	PendingKey string     `json:"pending_key"`
	UsageKey   string     `json:"usage_key"`
	Policy     policyJSON `json:"policy"`
	PolicyName string     `json:"policy_name"`

	policy   priority.Policy
	customer string
}

// What get asks Redis for: what peek.lua replies, the average time from Submit to
// Done in tenths of a second, and the TTLs of the usage and of the count. It is one
// call, so that the numbers fit together.
const (
	beforePeek = "local function peek()\n"
	afterPeek  = `
end
local reply = peek()
if not reply.err then
  reply[9] = math.floor((redis.call('GET', KEYS[3]) or 0) / 1000000)
  reply[10] = redis.call('PTTL', KEYS[3])
  reply[11] = redis.call('PTTL', KEYS[1])
end
return reply`

	getRights = "+evalsha +eval +get +pttl +zcount +zrange +time"
)

func (c *connection) lookup(ctx context.Context, customer string) (*state, error) {
	if err := priority.CheckCustomer(customer); err != nil {
		return nil, err
	}
	keys := []string{c.store.Key(customer), c.store.PendingKey(customer), c.store.UsageKey(customer)}
	script := redis.NewScript(beforePeek + c.store.PeekScript(customer) + afterPeek)
	reply, err := script.Run(ctx, c.client, keys).Int64Slice()
	var refused redis.Error
	switch {
	case errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "CORRUPT"):
		return nil, c.corrupt(ctx, customer, refused)
	case forbidden(err):
		return nil, fmt.Errorf("%s: %w; it needs %s on the keys ~%s:*", shown(customer), err, getRights, c.prefix)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", shown(customer), err)
	case len(reply) != 11:
		return nil, fmt.Errorf("%s: Redis replied %d numbers, not 11", shown(customer), len(reply))
	}
	level, count, pending, resetIn, countTTL := priority.Level(reply[0]), reply[1], reply[2], reply[3], reply[10]
	ruled := c.policy.Level(count)
	s := &state{
		name: nameOf(customer), Level: level, Count: count, Pending: pending,
		RuleLevel: ruled, Row: rowOf(c.policy.Policy, ruled).condition(),
		Counted: countTTL != -2, ResetInMS: resetIn, NoTTL: countTTL == -1,
		CountKey: keys[0], PendingKey: keys[1], UsageKey: keys[2],
		Policy: jsonOf(c.policy.Policy), PolicyName: c.policy.Name, policy: c.policy.Policy, customer: customer,
	}
	s.NextLevel = c.policy.Level(0)
	if s.Counted {
		s.Documents = 1 - count
		s.NextLevel = c.policy.Level(count - 1)
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	s.Submit = submittedOf(c.policy.Policy, level, history{
		pending: pending, ordinary: reply[5], cost: reply[6], lease: ms(reply[7]),
		sojourn: 100 * ms(reply[8]), usageTTL: max(ms(reply[9]), 0), known: reply[9] != -2,
	})
	return s, nil
}

// corrupt says which key holds what it should not, and how to repair it.
func (c *connection) corrupt(ctx context.Context, customer string, reply redis.Error) error {
	key, want := c.store.Key(customer), "a count (a whole number of at most 15 digits)"
	switch code, _, _ := strings.Cut(reply.Error(), " "); code {
	case "CORRUPTPENDING":
		key, want = c.store.PendingKey(customer), "pending documents (a zset)"
	case "CORRUPTUSAGE":
		key, want = c.store.UsageKey(customer), "a usage (a string of at most 15 digits)"
	}
	held := "something other than" // where this user may not call TYPE
	if kind, err := c.client.Type(ctx, key).Result(); err == nil {
		held = "a " + kind + ", not"
	}
	reset := "priorityctl reset " + shellQuoted(customer)
	if c.prefix != defaultPrefix {
		reset += " -prefix " + shellQuoted(c.prefix)
	}
	return fmt.Errorf("%s: the key %s holds %s %s; to remove it: %s: %w",
		shown(customer), shown(key), held, want, reset, priority.ErrCorruptCount)
}

// String is what a person reads.
func (s *state) String() string {
	var out strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&out, "%-9s %s\n", label, fmt.Sprintf(format, args...))
	}
	submits := s.Submit.known
	line("customer", "%s", shown(s.customer))
	switch {
	case s.Pending > 0:
		line("level", "%d of 1 to %d, by Submit", s.Level, s.policy.Last())
	case submits:
		line("level", "%d of 1 to %d, by Next: nothing is pending", s.Level, s.policy.Last())
	default:
		line("level", "%d of 1 to %d", s.Level, s.policy.Last())
	}
	if submits {
		s.Submit.writeTo(line)
	}
	line("next", "level %d by Submit, level %d by Next", s.Submit.NextLevel, s.NextLevel)
	switch {
	case !s.Counted:
		line("count", "none: no document in the last %s", span(s.policy.ResetInterval))
	default:
		line("count", "%d: %s since the last reset", s.Count, plural(s.Documents, "document"))
	}
	line("row", "%s → level %d by Next", s.Row, s.RuleLevel)
	switch {
	case s.NoTTL:
		line("resets", "never as it is: the key has no TTL; the next document gives it one")
	case s.Counted:
		line("resets", "in %s%s", span(s.resetIn()), s.unless())
	}
	line("keys", "%s", shown(s.CountKey))
	if submits {
		line("", "%s", shown(s.PendingKey))
		line("", "%s", shown(s.UsageKey))
	}
	line("policy", "%s", s.PolicyName)
	out.WriteString("\n" + report.Wrap(s.why(), 79))
	return out.String()
}

func (s *state) resetIn() time.Duration { return time.Duration(s.ResetInMS) * time.Millisecond }

func (s *state) unless() string {
	if s.policy.ResetMode == priority.SinceLastReset {
		return ", whatever comes"
	}
	return ", unless a document comes before"
}

// why says in plain words why the customer is slow and when that ends.
func (s *state) why() string {
	if s.Submit.known {
		return shown(s.customer) + s.Submit.why(s.Level, s.Pending)
	}
	return s.ruled()
}

// ruled is why for a customer of whom only the count is known.
func (s *state) ruled() string {
	who, cause := shown(s.customer), plural(s.Documents, "document")+" since the last reset"
	var why strings.Builder
	switch {
	case !s.Counted && s.Level == priority.First:
		fmt.Fprintf(&why, "%s is not slow: the next document is counted as the first and gets level 1.", who)
	case s.Level == priority.First:
		fmt.Fprintf(&why, "%s is not slow: such documents are processed first.", who)
	case s.Level == s.policy.Last():
		fmt.Fprintf(&why, "%s is slow because of %s: such documents are processed last.", who, cause)
	default:
		fmt.Fprintf(&why, "%s waits behind %s because of %s.", who, levelsBefore(s.Level), cause)
	}
	if s.Counted && s.RuleLevel < s.policy.Last() {
		// The next row begins one below this row's least count.
		more := s.Count - rowOf(s.policy, s.RuleLevel).least + 1
		if more == 1 {
			fmt.Fprintf(&why, " The next document has level %d.", s.NextLevel)
		} else {
			fmt.Fprintf(&why, " The %s document from now has level %d.", ordinal(more), s.RuleLevel+1)
		}
	}
	switch {
	case s.RuleLevel == priority.First || s.NoTTL:
	case s.policy.ResetMode == priority.SinceLastReset:
		fmt.Fprintf(&why, " In %s the count starts afresh, whatever comes.", span(s.resetIn()))
	default:
		fmt.Fprintf(&why, " The count starts afresh after %s without a document; each one begins the %s anew.",
			span(s.resetIn()), span(s.policy.ResetInterval))
	}
	return why.String()
}

// levelsBefore names the levels that are served before one that is not the first.
func levelsBefore(level priority.Level) string {
	if level == priority.First+1 {
		return "level 1"
	}
	return fmt.Sprintf("levels 1 to %d", level-1)
}

// ordinal is 2nd, 3rd, 4th.
func ordinal(n int64) string {
	ending := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return group(n) + ending
}

// shellQuoted writes an argument as a POSIX shell reads it.
func shellQuoted(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@/-") == "" && text[0] != '-' {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
