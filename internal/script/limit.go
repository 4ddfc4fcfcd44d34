package script

import (
	"strings"
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
// that does not tell them apart.
type limit struct{ calls, pipelines semaphores }

func newLimit() *limit {
	return &limit{newSemaphores(64, MaxCalls), newSemaphores(16, MaxPipelines)}
}

// semaphores bound what is in flight, each in a range of a cluster's slots. So a customer
// who floods keeps few others waiting; and behind an AutoPipeliner, which does not tell
// nodes apart, a node that hangs leaves room for others, except in ranges with slots of both.
type semaphores []semaphore

type semaphore chan struct{}

func newSemaphores(n, most int) semaphores {
	s := make(semaphores, n)
	for i := range s {
		s[i] = make(semaphore, most/n)
	}
	return s
}

// of returns the semaphore of a key.
func (s semaphores) of(key string) semaphore { return s[slot(key)*len(s)/slots] }

// nodes are the limits of a cluster's nodes.
type nodes struct {
	mu sync.Mutex
	of map[*redis.Client]*limit
}

// maxNodes is more than a Redis Cluster has. When it is reached, most are former
// nodes.
const maxNodes = 1000

func (n *nodes) limit(node *redis.Client) *limit {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.of[node]
	if l == nil {
		if n.of == nil || len(n.of) == maxNodes {
			n.of = make(map[*redis.Client]*limit)
		}
		l = newLimit()
		n.of[node] = l
	}
	return l
}

const slots = 16384

// slot returns the slot of a key, as a Redis Cluster does: the CRC-16/XMODEM of what is
// between its braces.
func slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		key, _, _ = strings.Cut(rest, "}")
	}
	crc := uint16(0)
	for i := range len(key) {
		x := byte(crc>>8) ^ key[i]
		x ^= x >> 4
		crc = crc<<8 ^ uint16(x)<<12 ^ uint16(x)<<5 ^ uint16(x)
	}
	return int(crc) % slots
}
