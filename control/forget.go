package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/lua"
)

// Forgotten is what a Forget removed.
type Forgotten struct {
	Version int64 // of the log's entry, which says that a customer was forgotten, and not who
	Keys    int   // of the customer: count, pending documents, override
	Entries int   // of the log, about the customer's overrides and resets
}

// Forget removes a customer from Redis: the count, the pending documents, the
// override with its place in the list, and the log's entries about the customer. The log
// records who did it and why, without the customer; a Why that names the customer is
// refused. Replaces has no meaning here.
//
// It may be repeated. With [ErrForgottenInPart] it also returns what it removed so far, and
// must be repeated. An override that another operator sets after the Forget was recorded
// holds, and has its entry in the log.
//
// A Done of a document that was pending does nothing and is no error. A document that
// arrives later is the customer's first. What Redis does not hold, such as the memory of
// processes, backups and the queue, is not reached: docs/operate.md lists it.
func (a *Admin) Forget(ctx context.Context, customer string, change Change) (Forgotten, error) {
	if err := check.Customer(customer); err != nil {
		return Forgotten{}, err
	}
	if names(change.Why, customer) {
		return Forgotten{}, fmt.Errorf("%w option: Why names the customer, and the log would keep it", priority.ErrInvalid)
	}
	change.Replaces = 0
	call, err := a.call("forget:"+customer, "", [3]string{a.keys.log, a.keys.overrides, a.keys.logCopy}, change)
	if err != nil {
		return Forgotten{}, err
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	var done Forgotten
	if done.Version, _, err = a.change(ctx, call); err != nil {
		return done, err
	}
	var ofKeys, ofLog error
	done.Keys, ofKeys = a.removeKeys(ctx, customer, done.Version)
	done.Entries, ofLog = a.removeEntries(ctx, customer, done.Version)
	if err := errors.Join(ofKeys, ofLog); err != nil {
		return done, fmt.Errorf("%w: version %d: %w", ErrForgottenInPart, done.Version, err)
	}
	return done, nil
}

// removeKeys removes the customer's keys, and returns how many there were. An override that
// was set since the version is put in force again.
func (a *Admin) removeKeys(ctx context.Context, customer string, version int64) (n int, err error) {
	keys := a.store.Keys(customer)
	cmd := redis.NewIntCmd(ctx, "UNLINK", keys.Count, keys.Pending, keys.Override)
	err = a.inTime(ctx, func() error {
		_ = a.client.Process(ctx, cmd)
		return cmd.Err() // a deferred AutoPipeliner waits only here
	})
	if err == nil {
		n = int(cmd.Val())
		err = a.enforce(ctx, customer, version, priority.Override{}, 0)
	}
	if err != nil {
		return n, fmt.Errorf("control: cannot remove %.200q and the keys beside it: %w", keys.Count, err)
	}
	return n, nil
}

// entriesAtOnce is how many entries of the log one script reads or copies: a few
// milliseconds of Redis's time.
const entriesAtOnce = 200

// removeEntries removes the customer's entries from the log, up to a version, and returns
// how many there were.
func (a *Admin) removeEntries(ctx context.Context, customer string, version int64) (n int, err error) {
	for upTo := fmt.Sprint(version, "-0"); upTo != ""; {
		_, reply, err := a.ask(ctx, "XREVRANGE", a.keys.log, upTo, "-", "COUNT", entriesAtOnce)
		if err != nil {
			return 0, err
		}
		upTo = ""
		list, _ := reply.([]any)
		for _, each := range list {
			id, item := itemOfEntry(each)
			if item == "override:"+customer || item == "reset:"+customer {
				n++
			}
			if len(list) == entriesAtOnce {
				upTo = "(" + id
			}
		}
	}
	if n == 0 {
		return 0, nil
	}
	if err := a.copyLog(ctx, customer, version); err != nil {
		return 0, err
	}
	return n, nil
}

// itemOfEntry reads {id, {field, value, …}}, whatever else there is in it.
func itemOfEntry(entry any) (id, item string) {
	pair, _ := entry.([]any)
	if len(pair) != 2 {
		return "", ""
	}
	id, _ = pair[0].(string)
	fields := textsOf(pair[1])
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "item" {
			item = fields[i+1]
		}
	}
	return id, item
}

var forgetScript = script.New(lua.Forget, 1, 0)

// copyLog puts a copy of the log without the customer's entries up to a version in its place.
func (a *Admin) copyLog(ctx context.Context, customer string, version int64) error {
	d := script.Begin(ctx, -1)
	defer d.End()
	call := script.Call{
		Script: forgetScript, Key: a.keys.log, Others: [3]string{a.keys.logCopy, a.keys.logCopying},
		Numbers: []int64{1 + rand.Int64N(999_999_999_999_999), entriesAtOnce, version}, IDs: []string{customer}, Repeatable: true,
	}
	for {
		reply, failure := a.runner.Run(&d, &call)
		switch {
		case failure != nil:
			return fmt.Errorf("control: cannot remove the entries of %q: %w", a.keys.log, failure.Err)
		case reply[0] == 1:
			return nil
		case reply[0] == 0:
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("control: another Forget copies %q: %w", a.keys.log, ctx.Err())
		case <-time.After(betweenTries):
		}
	}
}

// names reports whether a customer stands in a text as a word, in upper or lower case.
func names(text, customer string) bool {
	text, customer = strings.ToLower(text), strings.ToLower(customer)
	for from := 0; ; {
		at := strings.Index(text[from:], customer)
		if at < 0 {
			return false
		}
		at += from
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(customer):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		from = at + 1
	}
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
