package brokertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/docpriority/priority/internal/testing/redistest"
)

// StartPostgres starts a PostgreSQL server.
func StartPostgres(tb testing.TB) *Server {
	tb.Helper()
	const place = "/usr/lib/postgresql/*/bin"
	initdb := find(tb, "initdb", "postgresql", place)
	program := find(tb, "postgres", "postgresql", place)
	isReady := find(tb, "pg_isready", "postgresql-client", place)
	port := fmt.Sprint(redistest.FreePort(tb))
	dir := tempDir(tb)
	data := filepath.Join(dir, "data")
	create := []string{initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync"}
	serve := []string{program, "-D", data, "-h", "127.0.0.1", "-p", port, "-k", dir}
	if os.Geteuid() == 0 { // which PostgreSQL refuses to run as
		if err := os.Chmod(dir, 0o777); err != nil {
			tb.Fatal(err)
		}
		runAs := []string{
			redistest.Find(tb, "setpriv", "util-linux"), "--reuid", "postgres", "--regid", "postgres", "--init-groups", "--pdeathsig", "KILL",
		}
		create, serve = slices.Concat(runAs, create), slices.Concat(runAs, serve)
	}
	initialize := exec.Command(create[0], create[1:]...)
	initialize.Dir = dir
	if output, err := initialize.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v: %s", initdb, err, output)
	}
	s := &Server{
		URL: fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", port), tb: tb, dir: dir,
		quit:    syscall.SIGQUIT, // "immediate": it recovers as after a crash, but leaves no shared memory behind
		program: serve[0], args: serve[1:],
		ready: func() bool { return exec.Command(isReady, "-q", "-h", "127.0.0.1", "-p", port).Run() == nil },
	}
	s.Restart()
	return s
}
