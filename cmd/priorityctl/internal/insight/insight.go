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
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/keys"
)

// Options configures an [Inspector]. The zero value works.
type Options struct {
	Prefix  string        // begins the keys. Default: "priority"
	Timeout time.Duration // bounds each call. Default: 2 s
	Address string        // where the client leads: a URL without a password
	Secrets []string      // passwords, which no text shows

	// Own are the workers' own policies, which apply if operators have set none. Default: the
	// module's. OwnSource says where they come from.
	Own       priority.Policies
	OwnSource string
}

// Inspector looks at the fleet of one prefix. It is safe for concurrent use.
type Inspector struct {
	Options
	Client redis.UniversalClient // a *redis.Client or a *redis.ClusterClient
	Admin  *control.Admin
}

// New returns an Inspector. It sends nothing. An error wraps [priority.ErrInvalid].
func New(client redis.UniversalClient, options Options) (*Inspector, error) {
	options.Prefix = cmp.Or(options.Prefix, keys.DefaultPrefix)
	options.Timeout = cmp.Or(options.Timeout, 2*time.Second)
	options.OwnSource = cmp.Or(options.OwnSource, "the module's default policy")
	admin, err := control.NewAdmin(client, &control.AdminOptions{Prefix: options.Prefix, Timeout: options.Timeout})
	if err != nil {
		return nil, err
	}
	return &Inspector{options, client, admin}, options.Own.Validate(0)
}

// Snapshot is what Redis knew of a fleet at a time. It does not change.
type Snapshot struct {
	*Inspector
	At      time.Time // when it was taken, by this process's clock
	Now     time.Time // the same by Redis's clock
	Masters []Master

	Applied     control.Applied // what operators have set
	PoliciesErr error           // why that is not known, or nil

	Reports    []fleet.Report
	ReportsErr error // why they are not known, or nil
	Totals     fleet.Totals
	Workers    []Worker

	Policies priority.Policies // what decides, with every field filled in
	Source   string            // where the policies come from, such as "version 12, by mary"
	Last     priority.Level    // the queue's last level

	Accounts bool                 // whether the fleet splits names into accounts and users
	Store    *priority.RedisStore // of customers, as Admin, which takes the place of the Inspector's
	Admin    *control.Admin

	ahead   time.Duration // Redis's clock, of this machine's
	settled bool          // whether Accounts is known: see Of
	busiest []fleet.Busy  // those of the Totals, by account
}

// Look looks at the fleet. An error means that Redis cannot be reached, or says nothing
// useful. The Snapshot says what else cannot be read.
func (i *Inspector) Look(ctx context.Context) (*Snapshot, error) {
	s := &Snapshot{Inspector: i, Policies: i.Own.WithDefaults(), Source: i.OwnSource}
	var err error
	if s.Masters, err = i.AskMasters(ctx); err != nil {
		return nil, err
	}
	if s.Now, err = i.Admin.Now(ctx); err != nil {
		return nil, err
	}
	s.At = time.Now()
	s.ahead = s.Now.Sub(s.At)
	if s.Applied, s.PoliciesErr = i.Admin.Policies(ctx); s.NoneLeft(s.PoliciesErr) {
		return nil, s.PoliciesErr
	}
	if s.Reports, s.ReportsErr = fleet.Read(ctx, i.Client, i.Prefix); s.NoneLeft(s.ReportsErr) {
		return nil, s.ReportsErr
	}
	s.Totals = fleet.Add(s.Reports)
	if s.Applied.Policies != nil {
		s.Policies, s.Source = *s.Applied.Policies, fmt.Sprintf("version %d, by %s", s.Applied.Version, Shown(s.Applied.By))
	}
	s.Last = s.Policies.Policy.Last()
	for _, r := range s.Reports {
		s.Last = max(s.Last, r.Levels)
		if s.Applied.Policies == nil && r.Here() && r.Err == nil && r.Levels < s.Policies.Policy.Last() {
			s.Source = fmt.Sprintf("%s, which is not that of workers with %d levels: see -policy", i.OwnSource, r.Levels)
		}
	}
	s.Workers = s.workers()
	s.learnAccounts()
	return s, s.open()
}

// NoneLeft reports whether an error means that no master is left that could be asked.
func (s *Snapshot) NoneLeft(err error) bool { return len(s.Masters) == 1 && Unreachable(err) }

// Lost says what workers knew of the policies and Redis does not, such as "Redis lost policies:
// version 15 was known, none is there"; empty: Redis has what they know.
func (s *Snapshot) Lost() string {
	version, lost := int64(0), false
	for _, r := range s.Reports {
		if r.Here() && r.Err == nil {
			version = max(version, r.Following.Version)
			lost = lost || r.Following.Code == control.Lost
		}
	}
	switch {
	case s.PoliciesErr != nil || version <= s.Applied.Version || !lost:
		return ""
	case s.Applied.Version == 0:
		return fmt.Sprintf("Redis lost policies: version %d was known, none is there", version)
	}
	return fmt.Sprintf("Redis lost policies: version %d was known, %d is there", version, s.Applied.Version)
}
