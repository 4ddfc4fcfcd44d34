package insight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/customer"
	"github.com/docpriority/priority/internal/keys"
)

// learnAccounts finds out, by the reports, whether the fleet splits names: by those of the workers
// that are here, if there are any.
func (s *Snapshot) learnAccounts() {
	for _, r := range s.Reports {
		if r.Err == nil && (r.Here() || s.Totals.Reports == 0) {
			s.Accounts, s.settled = s.Accounts || r.Accounts, true
		}
	}
	s.busiest = s.Totals.Busiest
	if !s.Accounts {
		return
	}
	// An account's numbers have all documents that its users submit, and none that they count.
	reports := slices.Clone(s.Reports)
	for i, r := range reports {
		reports[i].Busiest = slices.Clone(r.Busiest)
		for j, b := range r.Busiest {
			if account, _, isUser := keys.Account(b.Customer); isUser && b.Rule == priority.ByLoad {
				reports[i].Busiest[j].Customer = account
			}
		}
	}
	s.busiest = fleet.Add(reports).Busiest
}

// open opens what finds the keys of customers.
func (s *Snapshot) open() (err error) {
	if s.Admin, err = control.NewAdmin(s.Client, &control.AdminOptions{Prefix: s.Prefix, Accounts: s.Accounts, Timeout: s.Timeout}); err != nil {
		return err
	}
	// Tiers are left out: only the workers know their customers' tiers.
	s.Store, err = priority.NewRedisStore(s.Client, &priority.RedisOptions{
		Prefix: s.Prefix, Accounts: s.Accounts, Timeout: s.Timeout, Overrides: true, Policy: s.Policies.Policy, Levels: s.Last,
	})
	return err
}

// Of returns the snapshot that looks for customers where the workers do. If no worker has reported,
// names are split if Redis has a key of one of these customers as a user of an account.
func (s *Snapshot) Of(ctx context.Context, customers ...string) (*Snapshot, error) {
	if s.settled {
		return s, nil
	}
	var kinds []*redis.StatusCmd
	pipe := s.Client.Pipeline()
	for _, name := range customers {
		if account, user, isUser := keys.Account(name); isUser {
			for _, kind := range []string{keys.Count, keys.Pending, keys.Override} {
				kinds = append(kinds, pipe.Type(ctx, keys.Prefix(s.Prefix).OfUser(account, user, kind)))
			}
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return s.settle(slices.ContainsFunc(kinds, func(kind *redis.StatusCmd) bool { return kind.Err() == nil && kind.Val() != "none" }))
}

// OfOverrides is Of for all customers who are listed with an override.
func (s *Snapshot) OfOverrides(ctx context.Context) (*Snapshot, error) {
	if s.settled {
		return s, nil
	}
	return s.Of(ctx, s.Client.ZRange(ctx, keys.Prefix(s.Prefix).Overrides(), 0, -1).Val()...)
}

func (s *Snapshot) settle(accounts bool) (*Snapshot, error) {
	settled := *s
	settled.Accounts, settled.settled = accounts, true
	return &settled, settled.open()
}

// isUser reports whether a customer is a user of an account, and returns the account.
func (s *Snapshot) isUser(name string) (account string, isUser bool) {
	account, _, isUser = keys.Account(name)
	return account, isUser && s.Accounts
}

// User is a user of an account who sends documents, or has some pending.
type User struct {
	customer.Name
	Documents int64 `json:"documents"` // in the last minute, by the workers' reports
	Pending   int64 `json:"pending"`   // by what was looked at: of many pending documents the oldest

	hour int64 // documents in the last hour
}

// addUsers adds the users of an account, those who send most first.
func (s *Snapshot) addUsers(c *Customer) {
	name, users := c.Exact(), make(map[string]User)
	for _, b := range s.Totals.Busiest {
		if account, _, isUser := keys.Account(b.Customer); isUser && account == name && s.Accounts {
			user := User{Documents: b.Documents}
			for _, p := range b.Hour {
				user.hour += p.Documents
			}
			users[b.Customer] = user
		}
	}
	for _, d := range c.documents {
		if d.Customer != name && (s.Accounts || len(s.Reports) == 0) {
			user := users[d.Customer]
			user.Pending++
			users[d.Customer] = user
		}
	}
	for _, who := range slices.Sorted(maps.Keys(users)) {
		user := users[who]
		user.Name = customer.NameOf(who)
		c.Users = append(c.Users, user)
	}
	slices.SortStableFunc(c.Users, func(a, b User) int {
		return cmp.Or(cmp.Compare(b.Documents, a.Documents), cmp.Compare(b.hour, a.hour), cmp.Compare(b.Pending, a.Pending))
	})
}

// userFacts says who sends most.
func (c *Customer) userFacts() (facts []Fact) {
	const most = 5
	atLeast := ""
	if c.State.Pending > int64(len(c.documents)) {
		atLeast = "at least "
	}
	for i, user := range c.Users {
		if i == most {
			return append(facts, Fact{"users", Group(int64(len(c.Users)-most)) + " more were seen, which -json has"})
		}
		text := fmt.Sprintf("%s: at least %s in the last minute", Shown(user.Exact()), Plural(user.Documents, "document"))
		if c.State.Pending > 0 {
			text += ", " + atLeast + Group(user.Pending) + " pending"
		}
		facts = append(facts, Fact{"user", text})
	}
	return facts
}

// levelOf is the level by the rule of a customer's next document, if its own load were this one, and
// whether that is because of the load of the customer's account.
func levelOf(policy priority.Policy, state priority.State, load float64) (level priority.Level, byAccount bool) {
	if state.AccountLoad == 0 { // it is no user
		return policy.LevelOfLoad(load, state.PendingFlood+1), false
	}
	own, account := policy.LevelOfLoad(load, 1), policy.LevelOfLoad(state.AccountLoad, 1)
	if flood := priority.First + priority.Level(len(policy.Loads)); max(own, account) >= flood { // it is the account's turn
		return policy.LevelOfLoad(math.Inf(1), state.AccountFlood+1), account >= flood
	}
	return max(own, account-1), account-1 > own
}
