package trial

import (
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Log is what was logged, by whatever writes to it at the same time.
type Log struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (l *Log) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(line)
}

func (l *Log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// Await returns when a line that matches was logged.
func (l *Log) Await(tb testing.TB, line string) {
	tb.Helper()
	matches := regexp.MustCompile(line)
	Await(tb, line+" is logged", func() bool { return matches.MatchString(l.String()) })
}
