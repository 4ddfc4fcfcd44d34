package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const off = 10 * time.Minute // how wrong a clock is

// A worker's clock is wrong.
func workersClock(f *trial) {
	f.busy()
	written := regexp.MustCompile(`"written_ms":\d+`)
	f.join("late", func(j *joining) {
		j.hook = way{as: func(text string) string {
			return written.ReplaceAllString(text, fmt.Sprintf(`"written_ms":%d`, time.Now().Add(-off).UnixMilli()))
		}}
	})
	f.names(truth{check: "clock", workers: []string{"late"}})
}

// Redis's clock is wrong: so say the operator's and the workers'.
func redisClock(f *trial) {
	f.busy()
	f.flags = append(f.flags, "-redis", "redis://"+f.otherClock())
	f.names(truth{check: "clock"})
}

// Redis's clock was set back: what was submitted before is due later.
func clockStep(f *trial) {
	workers := f.joinAll("w1", "w2")
	documents := f.submit(workers[0], "acme", 20)
	f.reported()
	f.age(-off, documents...)
	f.names(truth{check: "clock", customers: []string{"acme"}, documents: func(during period) bounds { return f.book.pending(ofCustomer("acme"), during) }})
}

// otherClock leads to Redis, and what Redis says of the time is wrong.
func (f *trial) otherClock() (address string) {
	f.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	var wait sync.WaitGroup
	f.Cleanup(func() {
		_ = listener.Close()
		wait.Wait()
	})
	wait.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", f.server.Addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			relay := func(to io.Writer, from io.Reader) {
				_, _ = io.Copy(to, from)
				_, _ = client.Close(), server.Close()
			}
			wait.Go(func() { relay(server, client) })
			wait.Go(func() { relay(wrongTime{client}, server) })
		}
	})
	return listener.Addr().String()
}

// wrongTime writes replies to TIME that are wrong.
type wrongTime struct{ io.Writer }

// timeReply is Redis's reply to TIME, up to the seconds.
var timeReply = regexp.MustCompile(`\*2\r\n\$10\r\n\d{10}\r\n`)

func (w wrongTime) Write(text []byte) (int, error) {
	return w.Writer.Write(timeReply.ReplaceAllFunc(text, func(reply []byte) []byte {
		digits := bytes.TrimSuffix(reply[len("*2\r\n$10\r\n"):], []byte("\r\n"))
		seconds, _ := strconv.Atoi(string(digits))
		return fmt.Appendf(nil, "*2\r\n$10\r\n%d\r\n", seconds-int(off.Seconds()))
	}))
}
