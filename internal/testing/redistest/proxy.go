package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Fault is what a Proxy does to connections.
type Fault int32

const (
	None    Fault = iota
	Swallow       // requests arrive, replies go nowhere
	Cut           // requests arrive, the connection is closed instead of a reply
)

// Proxy sits between a client and a server and does harm.
type Proxy struct {
	Addr string

	target   string
	fault    atomic.Int32
	listener net.Listener
	wait     sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]bool
	closed   bool
}

// StartProxy starts a proxy in front of an address, closed with the test.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: listener.Addr().String(), target: target, listener: listener, open: make(map[net.Conn]bool)}
	p.wait.Add(1)
	go p.accept()
	tb.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		p.closed = true
		for conn := range p.open {
			_ = conn.Close()
		}
		p.mu.Unlock()
		p.wait.Wait()
	})
	return p
}

// Set changes the fault, for open connections too.
func (p *Proxy) Set(fault Fault) {
	p.fault.Store(int32(fault))
}

func (p *Proxy) accept() {
	defer p.wait.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, server) {
			return
		}
		go p.forward(server, client, func() Fault { return None })
		go p.forward(client, server, func() Fault { return Fault(p.fault.Load()) })
	}
}

func (p *Proxy) track(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_, _ = client.Close(), server.Close()
		return false
	}
	p.open[client], p.open[server] = true, true
	p.wait.Add(2)
	return true
}

// forward copies from one connection to the other until either is closed.
func (p *Proxy) forward(to, from net.Conn, fault func() Fault) {
	defer p.wait.Done()
	defer func() {
		_, _ = to.Close(), from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, to)
		delete(p.open, from)
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if now := fault(); n > 0 && now != Swallow {
			if now == Cut {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
