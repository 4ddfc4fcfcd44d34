// Package insight knows what to say about a fleet on the priority module: why a
// customer is slow and until when, what a policy means, what happens to all
// customers now, and whether a Redis does what the module needs. The program
// priorityctl and its page say it in the same words and the same JSON,
// as both take it from here.
//
//	inspector := &insight.Inspector{Client: client, Store: store, Policy: insight.NamedPolicy{…}}
//	inspector, err := inspector.Follow(ctx) // what operators have set
//	customer, err := inspector.Customer(ctx, "acme")
//	fmt.Println(customer.Why())
package insight

import (
	"cmp"
	"context"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight/census"
	"github.com/redis/go-redis/v9"
)

// DefaultPrefix is the default prefix of keys.
const DefaultPrefix = "priority"

// Inspector answers questions about the customers and the Redis of a fleet. Client,
// Store and Policy are required. Its methods are safe for concurrent use; its
// fields must not change meanwhile.
type Inspector struct {
	// Client is a *redis.Client or a *redis.ClusterClient.
	Client redis.UniversalClient

	// Store counts on the same Redis by Options, with Overrides. Its PolicyOf says which
	// policy a customer has.
	Store   *priority.RedisStore
	Options priority.RedisOptions

	// Prefix is the prefix of Store's keys. Default: DefaultPrefix.
	Prefix string

	// Policy is the policy of customers without a tier.
	Policy NamedPolicy

	// PolicyName names the policy that a customer has. It must be safe for
	// concurrent use. Default: Policy.Name for everybody.
	PolicyName func(customer string) string

	// Server says where Client leads.
	Server Server

	// Secrets are passwords. Texts have *** in their place, as a reply of Redis may
	// quote them.
	Secrets []string

	// Admin knows what operators have set. Nil: they have set nothing.
	Admin *control.Admin

	// Waits is how long documents took from Submit to Done, by level, as [fleet.Add] adds it
	// up. Nil: not known.
	Waits map[priority.Level]fleet.Histogram

	// Own is the store by the workers' own options, and Settings what operators have set.
	// [Inspector.Follow] sets them; before, they are nil.
	Own      *priority.RedisStore
	Settings *control.Settings

	read   time.Time  // when Settings were read, by this process's clock
	before *Inspector // the Inspector before Follow; nil: it does not follow
}

// NamedPolicy is a policy with every field filled in, and what people call it.
type NamedPolicy struct {
	priority.Policy
	Name string
}

// Server names a Redis for people.
type Server struct {
	Address string // a URL without a password
	Kind    Kind
	TLS     bool
}

// Kind says how many servers a Redis has, and who knows them.
type Kind string

// The kinds.
const (
	SingleServer Kind = "single server"
	Cluster      Kind = "cluster"
	Sentinel     Kind = "sentinel"
)

func (i *Inspector) prefix() string { return cmp.Or(i.Prefix, DefaultPrefix) }

// Walk begins a walk through all counts, or goes on at a cursor: see
// [census.Start]. It sets options.Prefix itself.
func (i *Inspector) Walk(ctx context.Context, options census.Options, cursor string) (*census.Walk, error) {
	options.Prefix = i.prefix()
	return census.Start(ctx, i.Client, options, cursor)
}
