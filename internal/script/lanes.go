package script

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// The most that is under way at a time, whether somebody still waits for it or
// not: what is given up goes on until the client's own timeouts end it. (On a
// cluster it is a little more: a lane where two nodes meet counts for both.)
const (
	MaxCalls     = callLanes * callsEach         // single calls
	MaxPipelines = pipelineLanes * pipelinesEach // pipelines, of MaxPipeline calls each

	callLanes, callsEach         = 64, 16
	pipelineLanes, pipelinesEach = 16, 2
)

// places are the lanes of one node of a cluster, or of a client that does not tell
// its nodes apart.
type places struct{ calls, pipelines lanes }

func newPlaces() *places {
	return &places{newLanes(callLanes, callsEach), newLanes(pipelineLanes, pipelinesEach)}
}

// nodes are the places of each node of a cluster.
type nodes struct {
	mu sync.Mutex
	of map[*redis.Client]*places
}

// maxNodes is more than a Redis Cluster has. When it is reached, most are nodes of
// former times.
const maxNodes = 1000

func (n *nodes) places(node *redis.Client) *places {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.of[node]
	if p == nil {
		if n.of == nil || len(n.of) == maxNodes {
			n.of = make(map[*redis.Client]*places)
		}
		p = newPlaces()
		n.of[node] = p
	}
	return p
}

// lanes bound what is under way. Each is for a range of a cluster's slots: behind
// an AutoPipeliner, which does not tell nodes apart, a node that hangs fills its own
// lanes and leaves those of other nodes free, but for one where two nodes meet.
type lanes []lane

type lane chan struct{}

func newLanes(n, each int) lanes {
	l := make(lanes, n)
	for i := range l {
		l[i] = make(lane, each)
	}
	return l
}

// of returns the lane of a key.
func (l lanes) of(key string) lane {
	return l[slot(key)*len(l)/slots]
}

// enter waits for a place in the lane. It returns false if ctx ends first.
func (l lane) enter(ctx context.Context) bool {
	select {
	case l <- struct{}{}:
		return true
	default:
	}
	select {
	case l <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l lane) leave() { <-l }

const slots = 16384

// slot returns the slot of a key by its hash tag, as a Redis Cluster does: its
// CRC-16/XMODEM.
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
