package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// StartPostgres starts a PostgreSQL of its own. It refuses to run as root; then it
// runs as the user postgres.
func StartPostgres(ctx context.Context) (*Server, error) {
	const places = "/usr/lib/postgresql/*/bin"
	initdb, err := find("initdb", "postgresql", places)
	if err != nil {
		return nil, err
	}
	program, err := find("postgres", "postgresql", places)
	if err != nil {
		return nil, err
	}
	return start(ctx, 1, func(ctx context.Context, s *Server, ports []int) error {
		s.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", ports[0])
		data := filepath.Join(s.dir, "data")

		create := exec.CommandContext(ctx, initdb, "-D", data, "-U", "postgres", "-A", "trust",
			"-E", "UTF8", "--locale", "C", "--no-sync")
		serve := exec.Command(program, "-D", data, "-h", "127.0.0.1", "-p", fmt.Sprint(ports[0]), "-k", s.dir, "-F")
		if os.Geteuid() == 0 {
			uid, gid, err := postgresUser()
			if err != nil {
				return err
			}
			if err := os.Chown(s.dir, uid, gid); err != nil {
				return err
			}
			runAs(create, uid, gid)
			runAs(serve, uid, gid)
		}
		create.Dir = s.dir
		isolate(create, syscall.SIGKILL)
		if output, err := create.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", initdb, err, bytes.TrimSpace(output))
		}
		return s.run(ctx, serve, syscall.SIGQUIT, func() bool { // by it, it gives its shared memory back
			status, err := os.ReadFile(filepath.Join(data, "postmaster.pid")) // its first line is whose it is, its last one the state
			lines := strings.Fields(string(status))
			return err == nil && len(lines) > 0 && lines[len(lines)-1] == "ready" && lines[0] == fmt.Sprint(s.last().command.Process.Pid)
		})
	})
}

func postgresUser() (uid, gid int, err error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, err
	}
	if uid, err = strconv.Atoi(account.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(account.Gid)
	return uid, gid, err
}
