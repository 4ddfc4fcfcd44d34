package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/script"
)

// Backup holds all that operators have set, except the log: with authors, reasons and
// ends. It is written as JSON.
type Backup struct {
	Version   int64
	At        time.Time // Redis's time
	Rules     *Item[Rules]
	Overrides []Held // without what the customers' keys hold
}

type backupJSON struct {
	Format    int            `json:"format"`
	Version   int64          `json:"version"`
	At        time.Time      `json:"at"`
	Rules     *Item[Rules]   `json:"rules,omitempty"`
	Overrides []overrideJSON `json:"overrides"`
}

type overrideJSON struct {
	Customer       string `json:"customer,omitempty"`
	CustomerBase64 []byte `json:"customer_base64,omitempty"` // set instead, if the customer is not UTF-8
	Item[priority.Override]
}

// MarshalJSON implements [json.Marshaler].
func (b *Backup) MarshalJSON() ([]byte, error) {
	file := backupJSON{Format: 1, Version: b.Version, At: b.At, Rules: b.Rules, Overrides: make([]overrideJSON, len(b.Overrides))}
	for i, held := range b.Overrides {
		file.Overrides[i].Item = held.Item
		if utf8.ValidString(held.Customer) {
			file.Overrides[i].Customer = held.Customer
		} else {
			file.Overrides[i].CustomerBase64 = []byte(held.Customer)
		}
	}
	return json.Marshal(file)
}

// UnmarshalJSON implements [json.Unmarshaler]. An error wraps [ErrCorrupt] or [ErrNewer].
func (b *Backup) UnmarshalJSON(text []byte) error {
	var file backupJSON
	err := json.Unmarshal(text, &file)
	switch {
	case file.Format > 1:
		return fmt.Errorf("%w: the file has format %d", ErrNewer, file.Format)
	case err != nil:
		return fmt.Errorf("%w: the file: %w", ErrCorrupt, err)
	case file.Format != 1:
		return fmt.Errorf("%w: the file is no backup of control", ErrCorrupt)
	}
	*b = Backup{Version: file.Version, At: file.At, Rules: file.Rules}
	for _, each := range file.Overrides {
		customer := each.Customer
		if customer == "" {
			customer = string(each.CustomerBase64)
		}
		b.Overrides = append(b.Overrides, Held{Customer: customer, Item: each.Item})
	}
	return nil
}

// Export returns the fleet's rules and overrides. If some cannot be read, it returns the
// others with an error that wraps [ErrCorrupt] or [ErrNewer].
func (a *Admin) Export(ctx context.Context) (*Backup, error) {
	settings, failure := a.Settings(ctx)
	if settings.Now.IsZero() {
		return nil, failure
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	held, _, err := a.written(ctx)
	if err != nil {
		return nil, err
	}
	backup := &Backup{Version: settings.Version, At: settings.Now, Rules: settings.Rules}
	for _, each := range held {
		if each.Err != nil {
			failure = errors.Join(failure, each.Err)
		} else {
			backup.Overrides = append(backup.Overrides, each)
		}
	}
	return backup, failure
}

// Imported is what an Import did.
type Imported struct {
	Version   int64 // of the last change; 0: nothing was changed
	Rules     bool  // whether the rules are now the backup's
	Overrides int   // overrides that are now in force
	Kept      int   // rules and overrides that were set differently since, and were kept
	Over      int   // overrides that have ended
}

// importedAtOnce is how many overrides three round trips restore.
const importedAtOnce = 1000

// Import restores items of the backup that are missing now, or older than in the backup;
// after Redis lost its data, that is the whole backup. What was set since the backup is
// kept, and so is that rules were withdrawn. An override that was ended since is missing,
// and comes back. The log names the change's author and reason; the items keep their own. If
// Import stops halfway, it may be repeated, also after [ErrNotInForce], when Redis did
// not accept some of the overrides. Workers follow the imported rules, as their new
// version is later than the backup's.
func (a *Admin) Import(ctx context.Context, backup *Backup, change Change) (Imported, error) {
	var done Imported
	change.Replaces = 0
	if err := change.validate(); err != nil {
		return done, err
	}
	if len(backup.Overrides) > MaxOverrides {
		return done, fmt.Errorf("%w: %d overrides", ErrTooMany, len(backup.Overrides))
	}
	for _, each := range backup.Overrides {
		_, err := each.Value.MarshalText()
		author := Change{By: each.By, Why: each.Why}
		if err = errors.Join(check.Customer(each.Customer), err, author.validate()); err != nil {
			return done, fmt.Errorf("control: the backup's override of %.80q: %w", each.Customer, err)
		}
	}
	if backup.Rules != nil {
		if err := backup.Rules.Value.Validate(a.levels); err != nil {
			return done, err
		}
		call, err := a.policyCall(&backup.Rules.Value, Change{By: backup.Rules.By, Why: backup.Rules.Why})
		if err != nil {
			return done, err
		}
		by(&call, change, backup.Version)
		settings, _ := a.Settings(ctx) // settings that cannot be read are replaced
		if there := settings.Rules; there != nil && there.At.Before(backup.Rules.At) {
			call.Numbers[replacesAt] = there.Version
		}
		err = ErrConflict
		if !settings.withdrawn.After(backup.Rules.At) {
			done.Version, err = a.changed(ctx, call)
		}
		if done.Rules = err == nil; errors.Is(err, ErrConflict) {
			done.Kept++
		} else if err != nil {
			return done, err
		}
	}
	var there writtenBy // read again where it is not known
	var err, notInForce error
	for some := range slices.Chunk(backup.Overrides, importedAtOnce) {
		if there.held == nil {
			if there, err = a.writtenBy(ctx); err != nil {
				return done, errors.Join(notInForce, err)
			}
		}
		there, err = a.importSome(ctx, some, there, backup.Version, change, &done)
		if err != nil && !errors.Is(err, ErrNotInForce) {
			return done, errors.Join(notInForce, err)
		} else if err != nil { // for instance while a node is away: the other nodes' customers have their overrides
			there, notInForce = writtenBy{}, cmp.Or(notInForce, err)
		}
	}
	return done, notInForce
}

// by sets a change's author, and a version that its own version has to exceed.
func by(call *script.Call, change Change, above int64) {
	call.IDs[2], call.IDs[3] = change.By, change.Why
	call.Numbers[aboveAt] = above
}

// importSome imports overrides in three round trips. It takes the overrides on record
// before it, and returns the overrides on record after it.
func (a *Admin) importSome(ctx context.Context, some []Held, there writtenBy, above int64, change Change, done *Imported) (writtenBy, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	var calls []script.Call
	var called []Held
	for _, each := range some {
		lasts := each.leftAt(there.now)
		if lasts <= 0 {
			done.Over++
			continue
		}
		call, err := a.overrideCall(each.Customer, each.Value, min(lasts, MaxOverride), Change{By: each.By, Why: each.Why})
		if err != nil {
			return there, err
		}
		by(&call, change, above)
		if older := there.held[each.Customer]; older.At.Before(each.At) {
			call.Numbers[replacesAt] = older.Version
		}
		calls, called = append(calls, call), append(called, each)
	}
	if len(calls) == 0 {
		return there, nil
	}
	d := script.Begin(ctx, -1)
	defer d.End()
	replies, failures := a.runner.RunEach(&d, calls)
	pipe := a.client.Pipeline()
	var errs []error
	made := make(map[string]int64)
	for i := range calls {
		version, left, err := answer(&calls[i], replies[i], failures[i])
		switch {
		case errors.Is(err, ErrConflict):
			done.Kept++
		case err != nil:
			errs = append(errs, err)
		default:
			done.Version = max(done.Version, version)
			made[called[i].Customer] = version
			_ = pipe.Process(ctx, a.enforcement(ctx, called[i].Customer, called[i].Value, left))
		}
	}
	if len(made) > 0 {
		inForce := 0
		err := a.inTime(ctx, func() error {
			cmds, err := pipe.Exec(ctx)
			for _, cmd := range cmds {
				if cmd.Err() == nil {
					inForce++
				}
			}
			return err
		})
		if err == nil || ctx.Err() == nil {
			done.Overrides += inForce
		}
		var failure error
		there, failure = a.keepNewer(ctx, made)
		if err = errors.Join(err, failure); err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", ErrNotInForce, err))
		}
	}
	return there, errors.Join(errs...)
}

// keepNewer puts in force what others have recorded since overrides were imported, and
// returns the overrides on record.
func (a *Admin) keepNewer(ctx context.Context, made map[string]int64) (writtenBy, error) {
	now, err := a.writtenBy(ctx)
	if err != nil {
		return now, err
	}
	for customer, version := range made {
		if there := now.held[customer]; there.Version != version {
			err = errors.Join(err, a.enforce(ctx, customer, there.Version, there.Value, there.leftAt(now.now)))
		}
	}
	return now, err
}

// writtenBy holds the overrides on record that have not ended, by customer, at a
// time of Redis.
type writtenBy struct {
	held map[string]Held
	now  int64
}

func (a *Admin) writtenBy(ctx context.Context) (writtenBy, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	held, now, err := a.written(ctx)
	by := writtenBy{make(map[string]Held, len(held)), now}
	for _, each := range held {
		by.held[each.Customer] = each
	}
	return by, err
}
