package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/cmd/priorityctl/internal/page"
)

const serveLong = `Serve shows the fleet as a page, at http://127.0.0.1:7090/. It changes nothing: where
an operator would act, it shows the command to copy. It asks for no login: anyone who
reaches -listen reads all customers' names and the log. On a loopback address only
requests for this machine's own names are answered: if a proxy passes on another Host,
name it by -host. It starts while Redis is away, and the page says so.

  priorityctl serve`

// shutdownTime is how long requests may take when the program ends.
const shutdownTime = 5 * time.Second

type serveFlags struct {
	listen string
	hosts  []string
}

func newServe() *cobra.Command {
	var serve serveFlags
	command := &cobra.Command{Use: "serve", Long: serveLong}
	flags := command.Flags()
	flags.StringVar(&serve.listen, "listen", "127.0.0.1:7090", "the address to listen on")
	flags.StringArrayVar(&serve.hosts, "host", nil, "on a loopback address, answer for this host name too; can be given several times")
	registerPolicy(command)
	return onRedis(command, serve.check, serve.run)
}

func (f *serveFlags) check(*cobra.Command) error {
	for i, name := range f.hosts {
		f.hosts[i] = plainHost(name)
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return usageError("-listen: %w", err)
	}
	return nil
}

// run serves the page until the command is interrupted.
func (f *serveFlags) run(c *call, _ []string) error {
	away := c.reached(c.meet())
	if away != nil && (exitStatus(away) != exitUnreachable || redis.IsAuthError(away)) {
		return away
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return usageError("-listen: %w", err)
	}
	named := "" // the commands that the page shows name Redis only if the environment does not
	if c.command.Flags().Changed("redis") {
		named = c.Address
	}
	shown := page.New(c.Inspector, named)
	handler := shown.Handler()
	if bound, ok := listener.Addr().(*net.TCPAddr); ok && bound.IP.IsLoopback() {
		handler = onlyLoopback(handler, f.hosts)
	}
	go shown.Watch(c.ctx())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(c.out, "http://%s/ shows %s. Ctrl-C ends it.\n", listener.Addr(), c.Address)
	if away != nil {
		c.note("%s; the page says so until it can", insight.OneLine(c.Hidden(away)))
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err = <-failed:
		err = statusError{exitFailed, err}
	case <-c.ctx().Done(): // Shutdown ends it below
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if shut := server.Shutdown(ctx); errors.Is(shut, context.DeadlineExceeded) {
		_ = server.Close()
	}
	return err
}

// loopback reports whether a host is this machine alone.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// plainHost returns a host without brackets, upper case, and the dot at its end.
func plainHost(host string) string {
	if inside, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inside, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// onlyLoopback refuses requests for other names than this machine's and these. Otherwise a
// foreign page could point its own name here, and the browser would let it read the answers
// (DNS rebinding).
func onlyLoopback(next http.Handler, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if host = plainHost(host); !loopback(host) && !slices.Contains(hosts, host) {
			http.Error(w, "priorityctl serve answers for 127.0.0.1 and localhost only; -host names other hosts that lead here", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
