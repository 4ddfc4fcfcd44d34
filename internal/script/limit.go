package script

import (
	"sync"

	"github.com/redis/go-redis/v9"
)

// The most that is in flight at a time, whether anyone still waits for it or not, on each
// node of a cluster: a call that is given up goes on until the client's own timeouts end it.
const (
	MaxCalls     = 1024 // single calls
	MaxPipelines = 32   // pipelines, of MaxPipeline calls each
)

// limit bounds what is in flight on one node of a cluster, or on all servers of a client
// that does not tell them apart. And it remembers which scripts were loaded there.
type limit struct {
	calls, pipelines chan struct{}

	mu    sync.Mutex
	loads map[*Script]chan struct{} // closed when the first call there has loaded it, or could not
}

// maxLoads is more than the policies that are followed at a time have.
const maxLoads = 10_000

// load returns what is closed when a script was loaded there, and whether that is the caller's task.
func (l *limit) load(script *Script) (loaded chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if loaded = l.loads[script]; loaded == nil {
		if l.loads == nil || len(l.loads) == maxLoads {
			l.loads = make(map[*Script]chan struct{})
		}
		loaded, first = make(chan struct{}), true
		l.loads[script] = loaded
	}
	return loaded, first
}

// newLimit returns the limit of a client. It is at most as many as the client has connections:
// a call waits for one here, where its time ends its turn. In the client it would go on waiting.
func newLimit(client Client) *limit {
	connections := MaxCalls
	if pool, ok := client.(interface{ Options() *redis.Options }); ok {
		connections = pool.Options().PoolSize
	}
	return &limit{calls: make(chan struct{}, min(connections, MaxCalls)), pipelines: make(chan struct{}, min(connections, MaxPipelines))}
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
