package script

import (
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// The most that is under way at a time, whether somebody still waits for it or
// not: what is given up goes on until the client's own timeouts end it. (On a
// cluster it is a little more: a lane where two nodes meet counts for both.)
const (
	MaxCalls     = callLanes * (callsEach + callsShared/neighbors) // single calls
	MaxPipelines = pipelineLanes * pipelinesEach                   // pipelines, of MaxPipeline calls each

	callLanes, callsEach         = 64, 8
	neighbors, callsShared       = 8, 64
	pipelineLanes, pipelinesEach = 16, 2
)

// places are the lanes of one node of a cluster, or of a client that does not tell
// its nodes apart.
type places struct{ calls, pipelines lanes }

func newPlaces() *places {
	return &places{newLanes(callLanes, callsEach, callsShared), newLanes(pipelineLanes, pipelinesEach, 0)}
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
// lanes and leaves those of other nodes free, but for some where two nodes meet.
type lanes []lane

// lane has places of its own, and shares others with its neighbors: for a customer who
// sends most of all. More for one customer would keep callers for others waiting, as
// each has to wait for the whole batch.
type lane struct {
	own, shared place
	waiting     *waiting
	customer    string // whose calls are to enter
}

// place is where a call takes a place, and leaves it.
type place chan struct{}

// newLanes makes n lanes, each with some places of its own and some that it shares.
func newLanes(n, each, shared int) lanes {
	l := make(lanes, n)
	for i := range l {
		l[i].own, l[i].waiting = make(place, each), &waiting{lines: make(map[string]*line)}
		if i%neighbors == 0 {
			l[i].shared = make(place, shared)
		} else {
			l[i].shared = l[i-1].shared
		}
	}
	return l
}

// of returns the lane of a key.
func (l lanes) of(key string) lane {
	lane := l[slot(key)*len(l)/slots]
	lane.customer = tag(key)
	return lane
}

// try takes a place if one is free; nil if there is none.
func (l lane) try() place {
	select {
	case l.own <- struct{}{}:
		return l.own
	default:
	}
	select {
	case l.shared <- struct{}{}:
		return l.shared
	default:
		return nil
	}
}

// enter waits for a place in the lane. It returns nil if the time is over first. Only the
// first caller of each customer competes for a place, so that nobody waits behind all
// calls of a customer who floods.
func (l lane) enter(over <-chan struct{}) place {
	line := l.waiting.join(l.customer)
	defer l.waiting.leave(l.customer, line)
	select {
	case line.first <- struct{}{}:
		defer func() { <-line.first }()
	case <-over:
		return nil
	}
	select {
	case l.own <- struct{}{}:
		return l.own
	case l.shared <- struct{}{}:
		return l.shared
	case <-over:
		return nil
	}
}

func (p place) leave() { <-p }

// waiting has a line for each customer with callers who wait for a place in a lane.
type waiting struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is a customer's callers; first holds the one who competes for a place.
type line struct {
	first   chan struct{}
	callers int // guarded by waiting.mu
}

func (w *waiting) join(customer string) *line {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lines[customer]
	if l == nil {
		l = &line{first: make(chan struct{}, 1)}
		w.lines[customer] = l
	}
	l.callers++
	return l
}

func (w *waiting) leave(customer string, l *line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.callers--; l.callers == 0 {
		delete(w.lines, customer)
	}
}

const slots = 16384

// tag returns the part of a key that decides on its slot.
func tag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		key, _, _ = strings.Cut(rest, "}")
	}
	return key
}

// slot returns the slot of a key, as a Redis Cluster does: its tag's CRC-16/XMODEM.
func slot(key string) int {
	key = tag(key)
	crc := uint16(0)
	for i := range len(key) {
		x := byte(crc>>8) ^ key[i]
		x ^= x >> 4
		crc = crc<<8 ^ uint16(x)<<12 ^ uint16(x)<<5 ^ uint16(x)
	}
	return int(crc) % slots
}
