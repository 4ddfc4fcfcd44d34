// Package insight knows what to say about a fleet: why a customer is slow and until when,
// what its workers do, and what is wrong. The program priorityctl and its page say the
// same, as both take it from here.
//
//	inspector, err := insight.New(client, insight.Options{})
//	snapshot, err := inspector.Look(ctx)
//	customer, err := snapshot.Customer(ctx, "acme")
//	fmt.Println(customer.Why())
package insight

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
)

// DefaultPrefix is the default prefix of keys.
const DefaultPrefix = "priority"

// Options configures an [Inspector]. The zero value works.
type Options struct {
	Prefix  string        // of the keys. Default: DefaultPrefix
	Timeout time.Duration // of each call. Default: 2 s
	Address string        // where the client leads: a URL without a password
	Secrets []string      // passwords, which no text shows

	// Own is the workers' own policy, which applies if operators have set none. Default: the
	// module's. Name says where it comes from.
	Own  control.Rules
	Name string
}

// Inspector looks at the fleet of one prefix. It is safe for concurrent use.
type Inspector struct {
	Options
	Client redis.UniversalClient // a *redis.Client or a *redis.ClusterClient
	Admin  *control.Admin
}

// New returns an Inspector. It sends nothing. An error wraps [priority.ErrInvalid].
func New(client redis.UniversalClient, options Options) (*Inspector, error) {
	options.Prefix = cmp.Or(options.Prefix, DefaultPrefix)
	options.Timeout = cmp.Or(options.Timeout, 2*time.Second)
	options.Name = cmp.Or(options.Name, "the module's default policy")
	admin, err := control.NewAdmin(client, &control.AdminOptions{Prefix: options.Prefix, Timeout: options.Timeout})
	if err != nil {
		return nil, err
	}
	return &Inspector{options, client, admin}, options.Own.Validate(255)
}

// Snapshot is what Redis knew of a fleet at a time. It does not change.
type Snapshot struct {
	*Inspector
	At      time.Time // by this process's clock
	Now     time.Time // by Redis's
	Servers []Master

	Applied control.Applied // what operators have set
	Unread  error           // why that is not known; else nil

	Reports    []fleet.Report
	Unreported error // why they are not known; else nil
	Totals     fleet.Totals
	Workers    []Worker

	Rules control.Rules // that decide, with every field filled in
	Name  string        // of the rules, such as "version 12, by mary"
	Last  priority.Level
	Store *priority.RedisStore // which decides by the rules
}

// Look looks at the fleet. An error means that Redis cannot be reached, or says nothing
// useful. The Snapshot says what else cannot be read.
func (i *Inspector) Look(ctx context.Context) (*Snapshot, error) {
	s := &Snapshot{Inspector: i, At: time.Now(), Rules: i.Own, Name: i.Name}
	var err error
	if s.Servers, err = i.masters(ctx); err != nil {
		return nil, err
	}
	if s.Now, err = i.Admin.Now(ctx); err != nil {
		return nil, err
	}
	if s.Applied, s.Unread = i.Admin.Rules(ctx); Unreachable(s.Unread) {
		return nil, s.Unread
	}
	if s.Reports, s.Unreported = fleet.Read(ctx, i.Client, i.Prefix); Unreachable(s.Unreported) {
		return nil, s.Unreported
	}
	s.Totals = fleet.Add(s.Reports)
	if s.Applied.Rules != nil {
		s.Rules, s.Name = *s.Applied.Rules, NameOfRules(s.Applied)
	}
	s.Rules = filled(s.Rules)
	s.Last = s.Rules.Policy.Last()
	for _, r := range s.Reports {
		s.Last = max(s.Last, r.Levels)
	}
	s.Workers = s.workers()
	options := priority.RedisOptions{
		Prefix: i.Prefix, Timeout: i.Timeout, Overrides: true, Policy: levels(s.Last),
		TierOf: func(string) string { return "" }, // only the workers know their customers' tiers
	}
	if s.Store, err = priority.NewRedisStore(i.Client, &options); err == nil {
		err = s.Store.Follow(s.Rules.Policy, s.Rules.Tiers)
	}
	return s, err
}

// levels returns a policy of so many levels: a store gives levels up to the queue's last,
// though the rules may have fewer.
func levels(last priority.Level) priority.Policy {
	thresholds := priority.DefaultPolicy().Thresholds
	for len(thresholds) < int(last)-1 {
		thresholds = append(thresholds, thresholds[len(thresholds)-1]-1)
	}
	return priority.Policy{Thresholds: thresholds[:last-1]}
}

// filled returns rules with every field filled in.
func filled(rules control.Rules) control.Rules {
	full := control.Rules{Policy: rules.Policy.WithDefaults(), Tiers: make(map[string]priority.Policy, len(rules.Tiers))}
	for name, policy := range rules.Tiers {
		full.Tiers[name] = policy.WithDefaults()
	}
	return full
}

// NameOfRules names rules that operators have set, for people.
func NameOfRules(applied control.Applied) string {
	return fmt.Sprintf("version %d, by %s", applied.Version, Shown(applied.By))
}

// Lost says what workers knew of the rules and Redis does not, such as "version 15 of the
// rules was known, and none is there"; empty: Redis has what they know.
func (s *Snapshot) Lost() string {
	known, lost := int64(0), false
	for _, r := range s.Reports {
		if r.Here() && r.Err == nil {
			known = max(known, r.Rules.Version)
			lost = lost || strings.HasPrefix(r.Rules.Error, "Redis lost data") // in each language
		}
	}
	if s.Unread != nil || known <= s.Applied.Version || !lost {
		return ""
	}
	if s.Applied.Version == 0 {
		return fmt.Sprintf("version %d of the rules was known, and none is there", known)
	}
	return fmt.Sprintf("version %d of the rules was known, and %d is there", known, s.Applied.Version)
}

// MustKnow returns an error if the rules could not be read.
func (s *Snapshot) MustKnow() error {
	if s.Unread == nil {
		return nil
	}
	return fmt.Errorf("what operators have set cannot be read: %w", s.Unread)
}
