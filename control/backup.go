package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/docpriority/priority"
)

// Backup holds everything that operators have set, with authors, reasons and ends, but not
// the log. It is written as JSON.
type Backup struct {
	At        time.Time  // Redis's time
	Applied   Applied    // Version 0: no policies were ever set
	Overrides []Override // that have an end
}

type backupJSON struct {
	Format    int        `json:"format"`
	At        time.Time  `json:"at"`
	Applied   *Applied   `json:"policies,omitempty"`
	Overrides []Override `json:"overrides"`
}

// MarshalJSON implements [json.Marshaler].
func (b *Backup) MarshalJSON() ([]byte, error) {
	file := backupJSON{Format: 1, At: utc(b.At), Overrides: append([]Override{}, b.Overrides...)}
	if b.Applied.Version > 0 {
		applied := b.Applied
		applied.At = utc(applied.At)
		file.Applied = &applied
	}
	return json.Marshal(file)
}

// UnmarshalJSON implements [json.Unmarshaler]. An error wraps [ErrCorrupt] or [ErrNewer].
func (b *Backup) UnmarshalJSON(text []byte) error {
	var format struct {
		Format    int
		Overrides json.RawMessage // every export has them
	}
	var file backupJSON
	err := json.Unmarshal(text, &format)
	switch {
	case err == nil && format.Format > 1:
		return fmt.Errorf("%w: the file has format %d", ErrNewer, format.Format)
	case err == nil && (format.Format != 1 || format.Overrides == nil):
		return fmt.Errorf("%w: the file is not an export", ErrCorrupt)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("%w: the file: %w", ErrCorrupt, err)
	}
	*b = Backup{At: file.At, Overrides: file.Overrides}
	if file.Applied != nil {
		b.Applied = *file.Applied
	}
	return nil
}

// Export returns the fleet's policies and overrides.
func (a *Admin) Export(ctx context.Context) (*Backup, error) {
	now, err := a.Now(ctx)
	if err != nil {
		return nil, err
	}
	backup := &Backup{At: now}
	if backup.Applied, err = a.Policies(ctx); err != nil {
		return nil, err
	}
	all, err := a.Overrides(ctx)
	for _, o := range all {
		if !o.Until.IsZero() {
			backup.Overrides = append(backup.Overrides, o)
		}
	}
	return backup, err
}

// Imported is what an Import did.
type Imported struct {
	Version   int64 `json:"version"`   // of the policies; 0: not changed
	Overrides int   `json:"overrides"` // overrides that are now in force
	Over      int   `json:"over"`      // overrides that have since ended
}

// Import restores a backup, with its authors, reasons and times, if there are neither
// policies nor overrides; otherwise an error wraps [ErrConflict]. With force it replaces the policies,
// and the overrides of the backup's customers. The log gets one entry.
//
// If Import stops halfway, repeat it with force. Workers follow the imported policies, which
// get a version above the backup's.
func (a *Admin) Import(ctx context.Context, backup *Backup, force bool, change Change) (Imported, error) {
	var done Imported
	if err := errors.Join(change.validate(), backup.validate()); err != nil {
		return done, err
	}
	applied, err := a.Policies(ctx)
	if err != nil && !force {
		return done, err
	}
	overrides, err := a.Overrides(ctx)
	if err != nil {
		return done, err
	}
	if !force && (applied.Version > 0 || len(overrides) > 0) {
		return done, fmt.Errorf("%w: policies of version %d, overrides of %d customers", ErrConflict, applied.Version, len(overrides))
	}
	if backup.Applied.Version > 0 {
		replaces := applied.Version
		if force {
			replaces = AnyVersion
		}
		if done.Version, err = a.setPolicies(ctx, replaces, backup.Applied.Version, backup.Applied, change); err != nil {
			return done, err
		}
	}
	now, err := a.Now(ctx)
	if err != nil {
		return done, err
	}
	if err := a.noteImport(ctx, now, change); err != nil { // first: overrides may fail halfway
		return done, err
	}
	began := time.Now()
	for _, o := range backup.Overrides {
		at := now.Add(time.Since(began))
		if !o.Until.After(at) {
			done.Over++
			continue
		}
		if longest := at.Add(MaxOverride); o.Until.After(longest) {
			o.Until = longest
		}
		if err := a.importOne(ctx, o, at); err != nil {
			return done, fmt.Errorf("after %d overrides: %w", done.Overrides, err)
		}
		done.Overrides++
	}
	return done, nil
}

func (a *Admin) noteImport(ctx context.Context, now time.Time, change Change) error {
	ctx, cancel := a.within(ctx)
	defer cancel()
	return a.note(ctx, now, change, "import")
}

func (a *Admin) importOne(ctx context.Context, o Override, now time.Time) error {
	ctx, cancel := a.within(ctx)
	defer cancel()
	_, err := a.set(ctx, o, now)
	return err
}

func (b *Backup) validate() error {
	if len(b.Overrides) > MaxOverrides {
		return fmt.Errorf("%w: the backup has %d", ErrTooMany, len(b.Overrides))
	}
	for _, o := range b.Overrides {
		o.By, o.Why = cmp.Or(o.By, "?"), cmp.Or(o.Why, "?") // set by hand
		if err := o.validate(); err != nil {
			return fmt.Errorf("control: the backup's override of %.80q: %w", o.Customer, err)
		}
	}
	applied := b.Applied
	if applied.Version < 0 || applied.Version > 1e12 {
		return fmt.Errorf("%w policy: the backup has version %d", priority.ErrInvalid, applied.Version)
	}
	if applied.Policies == nil {
		return nil
	}
	return applied.Policies.Validate(maxLevels)
}
