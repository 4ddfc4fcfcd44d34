package fleet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/script"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/docpriority/priority/lua"
)

const (
	perScript   = 100     // reports, so that no command blocks Redis for long
	maxReads    = 100_000 // reports
	readTimeout = 5 * time.Second
)

var (
	membersScript = script.New(lua.Members)
	reportsScript = script.New(lua.Reports)
)

// Read returns the reports of all processes that share a prefix, in two round trips,
// including processes killed within the last hour. Prefix "" means "priority". A report
// that cannot be read has an Err, and no numbers.
func Read(ctx context.Context, client priority.RedisClient, prefix string) ([]Report, error) {
	names, err := namesOf(client, prefix)
	if err != nil {
		return nil, err
	}
	d := script.Begin(ctx, readTimeout)
	defer d.End()
	runner := script.NewRunner(client)
	ids, err := members(&d, runner, names)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	found, err := textsOf(&d, runner, names, ids)
	if err != nil {
		return nil, err
	}
	reports, workers := make([]Report, len(found)), runtime.GOMAXPROCS(0) // which may change
	var reading sync.WaitGroup
	for part := range workers { // a thousand reports are 10 MB of JSON
		reading.Go(func() {
			for i := part; i < len(found); i += workers {
				reports[i] = found[i].report()
			}
		})
	}
	reading.Wait()
	return reports, nil
}

// Emptied returns when a process last found that Redis had lost its data, by Redis's clock;
// zero: not within a day. Prefix "" means "priority".
func Emptied(ctx context.Context, client priority.RedisClient, prefix string) (time.Time, error) {
	names, err := namesOf(client, prefix)
	if err != nil {
		return time.Time{}, err
	}
	key, pipe := names.Emptied(), client.Pipeline()
	cmd := pipe.Get(ctx, key)
	_, _ = pipe.Exec(ctx)
	at, err := cmd.Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("fleet: cannot read %q: %w", key, err)
	}
	return time.UnixMilli(at), nil
}

// namesOf names the keys of a prefix, or returns what is wrong with the client or the prefix.
func namesOf(client priority.RedisClient, prefix string) (keys.Prefix, error) {
	if typednil.Is(client) {
		return "", fmt.Errorf("%w option: the client is nil", priority.ErrInvalid)
	}
	return keys.Prefix(prefix), keys.Prefix(prefix).Validate()
}

// members returns the ids of the processes with a recent report.
func members(d *script.Deadline, runner *script.Runner, names keys.Prefix) (ids []string, err error) {
	reply, failure := runner.Run(d, &script.Call{Script: membersScript, Key: names.Members(), Args: []any{maxReads}, ReadOnly: true})
	if failure != nil {
		return nil, fmt.Errorf("fleet: cannot read %q: %w", names.Members(), failure.Err)
	}
	for _, value := range reply.Values {
		if id, ok := value.(string); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// found is a report as Redis holds it.
type found struct {
	id, text string
	age      time.Duration
}

// textsOf returns the reports that exist.
func textsOf(d *script.Deadline, runner *script.Runner, names keys.Prefix, ids []string) ([]found, error) {
	var calls []script.Call
	for page := range slices.Chunk(ids, perScript) {
		call := script.Call{Script: reportsScript, Key: names.Report(page[0]), ReadOnly: true}
		for _, id := range page[1:] {
			call.OtherKeys = append(call.OtherKeys, names.Report(id))
		}
		calls = append(calls, call)
	}
	replies, failures := runner.RunEach(d, calls)
	var reports []found
	for page := range slices.Chunk(ids, perScript) {
		reply, failure := replies[0].Values, failures[0]
		replies, failures = replies[1:], failures[1:]
		if failure != nil {
			return nil, fmt.Errorf("fleet: cannot read the reports beside %q: %w", names.Members(), failure.Err)
		}
		if len(reply) != 2*len(page) {
			return nil, fmt.Errorf("fleet: %d replies for %d reports beside %q", len(reply), len(page), names.Members())
		}
		for i, id := range page {
			text, ok := reply[i].(string)
			left, _ := reply[len(page)+i].(int64)
			switch {
			case ok:
				age := lasts - time.Duration(left)*time.Millisecond
				reports = append(reports, found{id, text, min(max(age, 0), lasts)})
			case left != -2: // else it has expired
				reports = append(reports, found{id: id}) // a key of another kind
			}
		}
	}
	return reports, nil
}

func (f found) report() Report {
	var r Report
	var err error
	if len(f.text) > maxReadBytes {
		err = fmt.Errorf("fleet: bad report: %d bytes", len(f.text))
	} else {
		err = r.UnmarshalJSON([]byte(f.text))
	}
	if err != nil {
		return Report{ID: f.id, Age: f.age, Err: err}
	}
	r.ID, r.Age = f.id, f.age
	return r
}
