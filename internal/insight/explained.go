package insight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docpriority/priority/control"
)

// logPage is how many entries of the log are read to find who made a change.
const logPage = 1000

// Explained adds to the error of a change what an operator needs: who has changed the item
// meanwhile, that it does not exist, or which rights are missing. The kind is as in
// [Logged].
func (i *Inspector) Explained(ctx context.Context, err error, kind, customer string) error {
	switch {
	case err == nil:
		return nil
	case Forbidden(err) && kind == "forget":
		return fmt.Errorf("%w; it needs %s %s on the keys ~%s:{control}:*, and +unlink on the customer's keys, ~%[4]s:{*}:*", err, ControlWriteRights, ForgetRights, i.prefix())
	case Forbidden(err) && errors.Is(err, control.ErrNotInForce):
		return fmt.Errorf("%w; it needs +set +unlink on the keys ~%s:{*}:override", err, i.prefix())
	case Forbidden(err):
		return fmt.Errorf("%w; it needs %s on the keys ~%s:{control}:*", err, ControlWriteRights, i.prefix())
	case errors.Is(err, control.ErrNotFound) && kind == "override":
		return inOtherWords{err, "there is no override"}
	case !errors.Is(err, control.ErrConflict):
		return err
	}
	entries, logErr := i.Admin.Log(ctx, 0, logPage)
	if logErr != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Kind != kind || entry.Customer != customer {
			continue
		}
		// If somebody has ended it, the newest entry has no new value.
		if entry.New != nil && strings.HasSuffix(err.Error(), ", and is over") {
			return inOtherWords{err, fmt.Sprintf("changed meanwhile: the %s has ended by itself, at %s (version %d); look again, and decide again",
				kind, Moment(entry.Until), entry.Version)}
		}
		return inOtherWords{err, fmt.Sprintf("changed meanwhile by %s at %s: %s, %s (version %d); look again, and decide again",
			Shown(entry.By), Moment(entry.At), LoggedOf(entry).Says, Quoted(entry.Why), entry.Version)}
	}
	return inOtherWords{err, fmt.Sprintf("changed meanwhile: there is no %s, also not in the log; look again, and decide again", kind)}
}

// inOtherWords is an error with a text for operators.
type inOtherWords struct {
	error
	text string
}

func (e inOtherWords) Error() string { return e.text }

func (e inOtherWords) Unwrap() error { return e.error }
