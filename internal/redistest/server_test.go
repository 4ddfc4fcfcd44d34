package redistest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// Tests that would need a server are skipped where there is none; but not in CI, and
// not where somebody named a server that is not there.
func TestAMissingServerIsSkippedOrFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, test := range []struct{ server, ci, want string }{
		{"", "", "skipped: "},
		{"", "true", "failed: "},
		{"/nowhere/valkey-server", "", "failed: REDIS_SERVER: "},
		{"valkey-server", "true", "failed: REDIS_SERVER: "},
	} {
		t.Setenv("REDIS_SERVER", test.server)
		t.Setenv("CI", test.ci)
		var ended ending
		done := make(chan struct{})
		go func() {
			defer close(done)
			Start(&ended)
		}()
		<-done
		if !strings.HasPrefix(ended.text, test.want) {
			t.Errorf("REDIS_SERVER=%q CI=%q: %q, want %q", test.server, test.ci, ended.text, test.want)
		}
	}
}

// ending is a testing.TB that notes how it ended.
type ending struct {
	testing.TB
	text string
}

func (v *ending) Helper() {}

func (v *ending) Skip(args ...any) { v.end("skipped: " + fmt.Sprint(args...)) }

func (v *ending) Fatal(args ...any) { v.end("failed: " + fmt.Sprint(args...)) }

func (v *ending) Fatalf(format string, args ...any) { v.end("failed: " + fmt.Sprintf(format, args...)) }

func (v *ending) end(text string) {
	v.text = text
	runtime.Goexit()
}
