package conformance_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2/server"
)

// The fates of a script that a client sends. Any other fate is the reply instead: an error
// without its "-", or a whole reply, which ends with a line's end.
const (
	pass = "answered"
	lose = "lost" // the script runs; the connection is closed instead of an answer
)

// between stands between a port and a server, and decides about each script.
type between struct {
	addr   string
	target string

	mu    sync.Mutex
	fates []string // of the scripts in turn; the last stays; none: pass
	sent  int      // scripts since the fates were set
	args  []string // of the scripts since the fates were set

	loaded  int  // scripts, by SCRIPT LOAD
	noLoads bool // SCRIPT LOAD is refused

	greeting chan struct{} // what is no script waits for it; nil: not
}

// listen opens a port for connections to a server that may not be there yet.
func listen(tb testing.TB) *between {
	tb.Helper()
	front, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(front.Close)
	b := &between{addr: front.Addr().String()}
	front.SetPreHook(b.relay)
	return b
}

// lead sets the server.
func (b *between) lead(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.target = target
}

// let decides about the scripts from here on: each has the next fate, and the last stays.
func (b *between) let(fates ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fates, b.sent, b.args = fates, 0, nil
}

// scripts returns how many were sent since the fates were set, and their arguments without
// the keys.
func (b *between) scripts() (sent int, args []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.args
}

// loads returns how often a script was loaded.
func (b *between) loads() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loaded
}

// refuseLoads has SCRIPT LOAD be refused from here on, as by a server that has renamed it.
func (b *between) refuseLoads() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noLoads = true
}

// holdGreetings has commands that are no scripts wait, until greet lets out those that are there.
func (b *between) holdGreetings(tb testing.TB) {
	b.greet(make(chan struct{}))
	tb.Cleanup(func() { b.greet(nil) })
}

// greet ends a wait, and says for what later commands wait.
func (b *between) greet(next chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.greeting != nil {
		close(b.greeting)
	}
	b.greeting = next
}

// backend is the connection to the server for one of the port's.
type backend struct {
	net.Conn
	replies *bufio.Reader
}

// relay passes one command on, and its answer back, according to its fate.
func (b *between) relay(client *server.Peer, command string, args ...string) bool {
	target, fate, wait := b.fateOf(command, args)
	to, _ := client.Ctx.(*backend)
	if to == nil {
		conn, err := net.Dial("tcp", target)
		if err != nil {
			client.Close()
			return true
		}
		client.OnDisconnect(func() { _ = conn.Close() })
		to = &backend{conn, bufio.NewReader(conn)}
		client.Ctx = to
	}
	if wait != nil {
		<-wait
	}
	if fate != pass && fate != lose {
		if !strings.HasSuffix(fate, "\n") {
			fate = "-" + fate + "\r\n"
		}
		client.WriteRaw(fate)
		return true
	}
	raw := fmt.Appendf(nil, "*%d\r\n", 1+len(args))
	for _, word := range append([]string{command}, args...) {
		raw = fmt.Appendf(raw, "$%d\r\n%s\r\n", len(word), word)
	}
	_, err := to.Write(raw)
	var reply []byte
	if err == nil {
		reply, err = readReply(to.replies, nil)
	}
	// A server that does not know a script says so, whatever was decided.
	if err != nil || fate == lose && !bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
		client.Close()
	} else {
		client.WriteRaw(string(reply))
	}
	return true
}

// fateOf decides about a command, and returns the server to send it to, and what to wait for.
func (b *between) fateOf(command string, args []string) (target, fate string, wait chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch command {
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO":
	case "SCRIPT":
		b.loaded++
		if b.noLoads {
			return b.target, "ERR unknown command 'SCRIPT'", nil
		}
		return b.target, pass, nil
	default:
		return b.target, pass, b.greeting
	}
	b.sent++
	if len(args) > 1 {
		keys, _ := strconv.Atoi(args[1])
		b.args = append(b.args, args[min(2+max(keys, 0), len(args)):]...)
	}
	if len(b.fates) == 0 {
		return b.target, pass, nil
	}
	return b.target, b.fates[min(b.sent, len(b.fates))-1], nil
}

// readReply reads one whole value of Redis's protocol, and the messages before it.
func readReply(from *bufio.Reader, read []byte) ([]byte, error) {
	line, err := from.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	read = append(read, line...)
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	more := 0
	switch line[0] {
	case '$', '!', '=':
		if n < 0 {
			return read, nil
		}
		at := len(read)
		read = append(read, make([]byte, n+2)...)
		_, err := io.ReadFull(from, read[at:])
		return read, err
	case '*', '~':
		more = n
	case '%':
		more = 2 * n
	case '>':
		more = n + 1 // the value comes after the message
	case '|':
		more = 2*n + 1
	}
	for range more {
		if read, err = readReply(from, read); err != nil {
			return nil, err
		}
	}
	return read, nil
}
