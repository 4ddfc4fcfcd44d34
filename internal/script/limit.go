package script

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The most that is in flight at a time, whether anyone still waits for it or not, on each
// node of a cluster: a call that is given up goes on until the client's own timeouts end it.
const (
	MaxCalls     = 1024 // single calls
	MaxPipelines = 32   // pipelines, of MaxPipeline calls each
)

// limit bounds what is in flight on one node of a cluster, or on all servers of a client
// that does not tell them apart. And it remembers which scripts are known there.
type limit struct {
	calls, pipelines chan struct{}
	clock            clock        // Redis's, there
	broken           atomic.Int32 // tries since the last answer that found their connection broken

	mu      sync.Mutex
	scripts map[*Script]chan struct{} // closed when the first call of it has ended
}

// maxScripts is more than the policies that are followed at a time have.
const maxScripts = 10_000

// known returns what is closed when a script is known there, and whether its first call is the
// caller's, who then closes it.
func (l *limit) known(script *Script) (known chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known = l.scripts[script]; known == nil {
		if l.scripts == nil || len(l.scripts) == maxScripts {
			l.scripts = make(map[*Script]chan struct{})
		}
		known, first = make(chan struct{}), true
		l.scripts[script] = known
	}
	return known, first
}

// await waits until a script is known there, for a tenth of the call's time at most: its first
// call may hang, or go to another node that does.
func (l *limit) await(d *Deadline, known chan struct{}) {
	select {
	case <-known:
		return
	default:
	}
	share := time.NewTimer(min(d.long/10, LongestShare))
	defer share.Stop()
	select {
	case <-known:
	case <-share.C:
	case <-d.context.Done():
	}
}

// newLimit returns the limit of a client. It is at most as many as the client has connections:
// a call waits for one here, where its time ends its turn. In the client it would go on waiting.
func newLimit(client Client) *limit {
	connections := MaxCalls
	if pool, ok := client.(interface{ Options() *redis.Options }); ok {
		connections = pool.Options().PoolSize
	}
	return &limit{
		calls: make(chan struct{}, min(connections, MaxCalls)), pipelines: make(chan struct{}, min(connections, MaxPipelines)),
		clock: clock{began: time.Now()},
	}
}

// nodes are the limits of a cluster's nodes: one that hangs leaves the others their places.
type nodes struct {
	mu     sync.Mutex
	limits map[*redis.Client]*limit
}

// maxNodes is more than a Redis Cluster has. When it is reached, most are former
// nodes.
const maxNodes = 1000

func (n *nodes) limit(node *redis.Client) *limit {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.limits[node]
	if l == nil {
		if n.limits == nil || len(n.limits) == maxNodes {
			n.limits = make(map[*redis.Client]*limit)
		}
		l = newLimit(node)
		n.limits[node] = l
	}
	return l
}
