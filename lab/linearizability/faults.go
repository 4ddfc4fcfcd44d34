package linearizability

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// cutter dials connections that break at times, in the ways a network has.
type cutter struct {
	oneIn int // of so many requests or answers, one is cut; 0: none

	requests, halfRequests, answers atomic.Int64 // cut so far
}

var errCut = errors.New("the connection was cut")

// client returns a client whose connections break.
func (c *cutter) client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &cutConn{TCPConn: conn.(*net.TCPConn), cutter: c}, nil
	}})
}

func (c *cutter) strikes() bool { return c.oneIn > 0 && rand.IntN(c.oneIn) == 0 }

// cutConn embeds a TCPConn, and no net.Conn, for its SyscallConn: the client
// looks there whether an idle connection is alive still.
type cutConn struct {
	*net.TCPConn
	cutter *cutter
}

// Write loses the request, whole or in part, when it is cut.
func (c *cutConn) Write(p []byte) (int, error) {
	switch {
	case c.cutter.strikes():
		c.cutter.requests.Add(1)
		_ = c.Close()
		// The loss is seen when the answer is read, as with a real network.
		return len(p), nil
	case c.cutter.strikes():
		c.cutter.halfRequests.Add(1)
		n, _ := c.TCPConn.Write(p[:len(p)/2])
		_ = c.Close()
		return n, errCut
	}
	return c.TCPConn.Write(p)
}

// Read loses an answer that Redis has sent when it is cut.
func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 && c.cutter.strikes() {
		c.cutter.answers.Add(1)
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// saboteur does to a server what its operators may do at any time.
type saboteur struct {
	server *redis.Client
	oneIn  int // of so many chances, one is taken for each fault; 0: none

	mu             sync.Mutex // no kill may hit the saboteur's own other fault
	flushes, kills int
}

// strike flushes the scripts, or closes all connections but its own, or does
// nothing.
func (s *saboteur) strike(ctx context.Context) error {
	if s.oneIn == 0 {
		return nil
	}
	chance := rand.IntN(s.oneIn)
	if chance > 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if chance == 0 {
		s.flushes++
		return s.server.ScriptFlush(ctx).Err()
	}
	s.kills++
	return s.server.ClientKillByFilter(ctx, "TYPE", "normal").Err()
}
