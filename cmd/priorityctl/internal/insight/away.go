package insight

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Connect returns a client of one server, or of a cluster, whose other masters can be looked at
// while one hangs.
func Connect(options *redis.UniversalOptions) redis.UniversalClient {
	if !options.IsClusterMode {
		return redis.NewUniversalClient(options)
	}
	cluster := options.Cluster()
	cluster.NewClient = func(node *redis.Options) *redis.Client {
		node.Limiter = &breaker{name: node.Addr}
		return redis.NewClient(node)
	}
	return redis.NewClusterClient(cluster)
}

// breaker refuses all commands to a node that did not answer one, until AskMasters asks it again:
// each would wait as long as the first.
type breaker struct {
	name string
	away atomic.Pointer[Away]
}

// Allow implements [redis.Limiter].
func (b *breaker) Allow() error {
	if away := b.away.Load(); away != nil {
		return *away
	}
	return nil
}

// ReportResult implements [redis.Limiter].
func (b *breaker) ReportResult(err error) {
	if Unreachable(err) {
		b.away.Store(&Away{err, b.name})
	}
}

// Away says why a master cannot be asked. It counts as a reply, so that nobody tries again.
type Away struct {
	error
	name string
}

func (e Away) Error() string {
	reason := e.error
	if network, ok := errors.AsType[*net.OpError](reason); ok { // without the addresses of the connection
		reason = network.Err
	}
	return fmt.Sprintf("cannot reach %s: %v", e.name, reason)
}

func (e Away) Unwrap() error { return e.error }

// RedisError implements [redis.Error].
func (e Away) RedisError() {}

// Missing says why some masters of a cluster could not be asked, while others were.
type Missing []error

// Add adds an error, unless it is there.
func (m *Missing) Add(err error) {
	if !slices.ContainsFunc(*m, func(other error) bool { return other.Error() == err.Error() }) {
		*m = append(*m, err)
	}
}

// Err returns the error; nil: nothing is missing.
func (m Missing) Err() error {
	if m == nil {
		return nil
	}
	return m
}

func (m Missing) Error() string {
	var all []string
	for _, err := range m {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ") + ": what is there is missing"
}
