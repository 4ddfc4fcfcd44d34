package soak

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
)

// Fleet is what a soak with faults found besides the calls.
type Fleet struct {
	Faults       map[string]int // how often each was done
	Made         int            // changes by operators
	Refused      int            // changes that Redis did not make, or may not have made
	Wrong        error          // what a change should have done, and did not
	Small, Flood Waits          // of small customers, and of floods
	InOrder      time.Duration  // how long all would wait in the order of arrival
	Pending      int64          // documents that are done, and pending in the end
	First, Last  Process        // medians of the first and of the last quarter
}

// Err returns what is wrong with what was found.
func (f *Fleet) Err() error {
	wrong := []error{f.Wrong, grown(f.First, f.Last)}
	if f.Pending > 0 {
		wrong = append(wrong, fmt.Errorf("%d documents are done, and pending", f.Pending))
	}
	if f.Small.Worst > f.InOrder {
		wrong = append(wrong, fmt.Errorf("a small customer waited for %v, and in the order of arrival all would wait for %v", f.Small.Worst, f.InOrder))
	}
	return errors.Join(wrong...)
}

const members = 3

// live has members of a fleet serve a queue, operators make changes, and faults happen,
// until the context ends. It ends the context when the rounds of faults are over.
func live(ctx context.Context, end func(), client redis.UniversalClient, store *priority.RedisStore, o Options) (*Fleet, error) {
	admin, err := control.NewAdmin(client, &control.AdminOptions{Prefix: o.prefix})
	if err != nil {
		return nil, err
	}
	var joined []*fleet.Member
	var stores []priority.Store
	for range members {
		member, err := fleet.Join(client, &fleet.Options{Store: o.redisOptions()})
		if err != nil {
			return nil, err
		}
		joined, stores = append(joined, member), append(stores, member)
	}
	f := &Fleet{Faults: make(map[string]int)}
	line := newLine(stores)
	operators := &operators{admin: admin, store: store, resets: o.redisOptions().Policy.ResetInterval}
	began := time.Now()
	var samples []Process
	var running sync.WaitGroup
	running.Go(func() { line.run(ctx) })
	running.Go(func() { operators.work(ctx) })
	running.Go(func() { samples = watch(ctx, client) })
	running.Go(func() {
		defer end()
		o.Site.disturb(ctx, o.rounds, o.calm, f.Faults)
	})
	running.Wait()

	f.Made, f.Refused, f.Wrong = operators.made, operators.refused, operators.wrong
	f.Small, f.Flood = line.waits()
	if served := f.Small.Documents + f.Flood.Documents; served > 0 {
		f.InOrder = time.Since(began) * backlog / time.Duration(served)
	}
	f.First, f.Last = quarters(samples)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.grace)
	defer cancel()
	err = obeyed(ctx, client, operators, o.prefix)
	for _, member := range joined {
		err = errors.Join(err, member.Close(ctx))
	}
	return f, err
}

// obeyed makes a last change, and waits until all members follow it.
func obeyed(ctx context.Context, client redis.UniversalClient, operators *operators, prefix string) error {
	for {
		err := operators.apply(ctx, control.Rules{Policy: priority.Policy{ResetInterval: operators.resets}}, control.Change{By: "soak", Why: "the last change"})
		if err == nil {
			break
		}
		if !rest(ctx, 100*time.Millisecond) {
			return fmt.Errorf("soak: the last change of the rules: %w", err)
		}
	}
	for {
		version, err := operators.version(ctx)
		var reports []fleet.Report
		if err == nil {
			reports, err = fleet.Read(ctx, client, prefix)
		}
		obey := 0
		for _, r := range reports {
			if r.Follows(version) && r.Rules.Error == "" {
				obey++
			}
		}
		if err == nil && obey == members {
			return nil
		}
		if !rest(ctx, 100*time.Millisecond) {
			return errors.Join(err, fmt.Errorf("soak: %d of %d members follow the last rules", obey, members))
		}
	}
}

// pending returns how many documents of all customers are pending.
func (o Options) pending(ctx context.Context, store *priority.RedisStore, customers []string) (documents int64, err error) {
	for n := range floods {
		customers = append(customers, fmt.Sprint("flood-", n))
	}
	for n := range smallCustomers {
		customers = append(customers, fmt.Sprint("small-", n))
	}
	for _, customer := range customers {
		err = errors.Join(err, o.patiently(ctx, func(ctx context.Context) error {
			state, err := store.Peek(ctx, customer)
			documents += state.Pending
			return err
		}))
	}
	return documents, err
}
