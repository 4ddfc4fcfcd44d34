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

const getLong = `Get tells a customer's level and why it is so: the count, the row of the policy's
table, when the count starts afresh, and what is pending where the fleet calls
Submit and Done. It changes nothing.

  priorityctl get acme
  priorityctl get acme 'Müller & Co' -json
  priorityctl get -policy gold.json acme      # a customer of a tier of its own

The levels are those of the policy that you name; Redis does not know which one
the fleet has.`

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
	Level     priority.Level `json:"level"`
	Count     int64          `json:"count"`
	Documents int64          `json:"documents"` // since the last reset
	RuleLevel priority.Level `json:"rule_level"`
	Row       string         `json:"row"`
	Counted   bool           `json:"counted"` // there is a count
	ResetInMS int64          `json:"reset_in_ms"`
	NoTTL     bool           `json:"no_ttl"`

	Pending      int64          `json:"pending"`
	PendingLevel priority.Level `json:"pending_level,omitempty"` // where something is pending

	CountKey   string     `json:"count_key"`
	PendingKey string     `json:"pending_key"`
	Policy     policyJSON `json:"policy"`
	PolicyName string     `json:"policy_name"`

	policy   priority.Policy
	customer string
}

func (c *connection) lookup(ctx context.Context, customer string) (*state, error) {
	decision, err := c.store.Peek(ctx, customer)
	switch {
	case errors.Is(err, priority.ErrCorruptCount):
		return nil, c.corrupt(ctx, customer, err)
	case err != nil:
		return nil, err
	}
	ruled := c.policy.Level(decision.Count)
	s := &state{
		name: nameOf(customer), Level: decision.Level, Count: decision.Count,
		RuleLevel: ruled, Row: rowOf(c.policy.Policy, ruled).condition(),
		Counted: decision.ResetIn > 0, ResetInMS: decision.ResetIn.Milliseconds(), Pending: decision.Pending,
		CountKey: c.store.Key(customer), PendingKey: c.store.PendingKey(customer),
		Policy: jsonOf(c.policy.Policy), PolicyName: c.policy.Name, policy: c.policy.Policy, customer: customer,
	}
	if s.Pending > 0 {
		s.PendingLevel = c.policy.Level(1 - s.Pending)
	}
	if !s.Counted {
		// No count and a count without a TTL look alike to Peek.
		left, err := c.client.PTTL(ctx, s.CountKey).Result()
		if err != nil {
			return nil, err
		}
		s.NoTTL = left == -1
		s.Counted = s.NoTTL
	}
	if s.Counted {
		s.Documents = 1 - s.Count
	}
	return s, nil
}

// corrupt says which key holds what it should not, and how to repair it.
func (c *connection) corrupt(ctx context.Context, customer string, err error) error {
	key, want := c.store.Key(customer), "a count (a whole number of at most 15 digits)"
	var reply redis.Error
	if errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "CORRUPTPENDING ") {
		key, want = c.store.PendingKey(customer), "pending documents (a zset)"
	}
	held := "something other than" // where this user may not call TYPE
	if kind, err := c.client.Type(ctx, key).Result(); err == nil {
		held = "a " + kind + ", not"
	}
	return fmt.Errorf("%s: the key %s holds %s %s; to remove it: priorityctl reset %s: %w",
		shown(customer), shown(key), held, want, shellQuoted(customer), priority.ErrCorruptCount)
}

// String is what a person reads.
func (s *state) String() string {
	var out strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&out, "%-9s %s\n", label, fmt.Sprintf(format, args...))
	}
	line("customer", "%s", shown(s.customer))
	line("level", "%d of 1 to %d", s.Level, s.policy.Last())
	switch {
	case !s.Counted:
		line("count", "none: no document in the last %s", span(s.policy.ResetInterval))
	default:
		line("count", "%d: %s since the last reset", s.Count, plural(s.Documents, "document"))
	}
	line("row", "%s → level %d", s.Row, s.RuleLevel)
	if s.Pending > 0 {
		line("pending", "%s → level %d; Submit takes the mean, rounded up: %d", plural(s.Pending, "document"), s.PendingLevel, s.Level)
	}
	switch {
	case s.NoTTL:
		line("resets", "never as it is: the key has no TTL; the next document gives it one")
	case s.Counted:
		line("resets", "in %s%s", span(s.resetIn()), s.unless())
	}
	line("keys", "%s", shown(s.CountKey))
	if s.Pending > 0 {
		line("", "%s", shown(s.PendingKey))
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
	who := shown(s.customer)
	var why strings.Builder
	switch {
	case !s.Counted && s.Level == priority.First:
		fmt.Fprintf(&why, "%s is not slow: the next document is counted as the first and gets level 1.", who)
	case s.Level == priority.First:
		fmt.Fprintf(&why, "%s is not slow: such documents are processed first.", who)
	case s.Level == s.policy.Last():
		fmt.Fprintf(&why, "%s is slow because of %s: such documents are processed last.", who, s.cause())
	case s.Level == priority.First+1:
		fmt.Fprintf(&why, "%s waits behind level 1 because of %s.", who, s.cause())
	default:
		fmt.Fprintf(&why, "%s waits behind levels 1 to %d because of %s.", who, s.Level-1, s.cause())
	}
	if s.Counted && s.RuleLevel < s.policy.Last() {
		level := "level"
		if s.PendingLevel > 0 {
			level = "rule level" // the mean also depends on what is pending then
		}
		// The next row begins one below this row's least count.
		more := s.Count - rowOf(s.policy, s.RuleLevel).least + 1
		if more == 1 {
			fmt.Fprintf(&why, " The next document has %s %d.", level, s.policy.Level(s.Count-1))
		} else {
			fmt.Fprintf(&why, " The %s document from now has %s %d.", ordinal(more), level, s.RuleLevel+1)
		}
	}
	if done, better := s.untilBetter(); done > 0 {
		fmt.Fprintf(&why, " When %s fewer are pending, the level is %d.", group(done), better)
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

func (s *state) cause() string {
	counted := fmt.Sprintf("%s since the last reset", plural(s.Documents, "document"))
	switch {
	case s.PendingLevel == 0:
		return counted
	case s.RuleLevel == priority.First:
		return plural(s.Pending, "pending document")
	case s.PendingLevel == priority.First:
		return counted
	}
	return fmt.Sprintf("%s and %s", counted, plural(s.Pending, "pending document"))
}

// untilBetter returns after how many Dones the level gets better, and which it is
// then; 0 if they cannot do it.
func (s *state) untilBetter() (done int64, better priority.Level) {
	for level := s.PendingLevel - 1; level >= priority.First; level-- {
		mean := (s.RuleLevel + level + 1) / 2
		if mean < s.Level {
			// A row's least count is 1 minus its most pending documents.
			return s.Pending - (1 - rowOf(s.policy, level).least), mean
		}
	}
	return 0, 0
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
