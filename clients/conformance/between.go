package main

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
)

// What becomes of a script that a client sends. Whatever else is an error that is
// answered in its place, without the "-", or a whole reply, which ends with a line's end.
const (
	pass = "answered"
	lose = "lost" // the script runs; the connection is closed instead of an answer
)

// between stands between a port and a server. It knows which command is a script, so
// that it can decide about each, and nothing is left to chance.
type between struct {
	addr     string
	listener net.Listener
	wait     sync.WaitGroup

	mu     sync.Mutex
	target string
	open   map[net.Conn]bool
	closed bool
	fates  []string // of the scripts in turn; the last stays; none: pass
	sent   int      // scripts since the fates were set
	args   []string // of the scripts since the fates were set
}

// listen opens a port for connections to a server that may not be there yet.
func listen(tb testing.TB) *between {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	b := &between{
		addr: listener.Addr().String(), listener: listener, open: make(map[net.Conn]bool),
	}
	b.wait.Add(1)
	go b.accept()
	tb.Cleanup(b.close)
	return b
}

func (b *between) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	_ = b.listener.Close()
	b.cut()
	b.wait.Wait()
}

// lead has connections from here on go to a server.
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

// scripts returns how many were sent since the fates were set.
func (b *between) scripts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent
}

// arguments returns those of the scripts since the fates were set, without the keys.
func (b *between) arguments() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.args
}

// cut closes all connections that are open now.
func (b *between) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.open {
		_ = conn.Close()
	}
}

func (b *between) accept() {
	defer b.wait.Done()
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		target := b.target
		b.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		b.mu.Lock()
		if b.closed {
			_, _ = client.Close(), server.Close()
		} else {
			b.open[client], b.open[server] = true, true
			b.wait.Add(1)
			go b.serve(client, server)
		}
		b.mu.Unlock()
	}
}

// serve passes commands on, one after the other, until either side ends.
func (b *between) serve(client, server net.Conn) {
	defer b.wait.Done()
	defer func() {
		_, _ = client.Close(), server.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open, client)
		delete(b.open, server)
	}()
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		command, err := readCommand(commands)
		if err != nil || !b.relay(command, client, server, replies) {
			return
		}
	}
}

// relay passes one command on, and its answer back, as is decided about it. It returns
// false where the connection is over.
func (b *between) relay(c command, client, server net.Conn, replies *bufio.Reader) bool {
	fate := b.fateOf(c)
	reply := []byte(fate)
	switch {
	case fate == pass, fate == lose:
		if _, err := server.Write(c.raw); err != nil {
			return false
		}
		var err error
		if reply, err = readReply(replies, nil); err != nil {
			return false
		}
		// A server that does not know a script says so, whatever was decided.
		if fate == lose && !bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
			return false
		}
	case !strings.HasSuffix(fate, "\n"):
		reply = fmt.Appendf(nil, "-%s\r\n", fate)
	}
	_, err := client.Write(reply)
	return err == nil
}

// fateOf decides about a command.
func (b *between) fateOf(c command) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !c.script() {
		return pass
	}
	b.sent++
	b.args = append(b.args, c.arguments()...)
	if len(b.fates) == 0 {
		return pass
	}
	return b.fates[min(b.sent, len(b.fates))-1]
}

// command is what a client sent: its text, and its words.
type command struct {
	raw   []byte
	words []string
}

func (c command) script() bool {
	switch strings.ToUpper(c.words[0]) {
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO":
		return true
	}
	return false
}

// arguments returns the words behind a script's name, the number of its keys, and the keys.
func (c command) arguments() []string {
	if len(c.words) < 3 {
		return nil
	}
	keys, _ := strconv.Atoi(c.words[2])
	return c.words[min(3+max(keys, 0), len(c.words)):]
}

// readCommand reads an array of texts, as all clients send.
func readCommand(from *bufio.Reader) (command, error) {
	raw, err := readReply(from, nil)
	if err != nil {
		return command{}, err
	}
	var words []string
	_, rest, _ := bytes.Cut(raw, []byte("\r\n"))
	for len(rest) > 0 && rest[0] == '$' {
		length, text, _ := bytes.Cut(rest[1:], []byte("\r\n"))
		n, _ := strconv.Atoi(string(length))
		words, rest = append(words, string(text[:n])), text[n+2:]
	}
	if raw[0] != '*' || len(words) == 0 {
		return command{}, fmt.Errorf("%.40q is no command", raw)
	}
	return command{raw, words}, nil
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
