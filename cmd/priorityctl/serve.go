package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/cmd/priorityctl/internal/page"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
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
	var connect connectionFlags
	var serve serveFlags
	command := &cobra.Command{Use: "serve", Long: serveLong}
	command.RunE = func(command *cobra.Command, _ []string) error {
		if connect.help {
			_, err := fmt.Fprintln(command.OutOrStdout(), connectionHelp)
			return err
		}
		if err := serve.check(); err != nil {
			return err
		}
		inspector, err := connect.inspector(command)
		if err != nil {
			return err
		}
		defer inspector.Client.Close()
		return inspector.Hidden(serve.run(command, inspector))
	}
	flags := command.Flags()
	flags.StringVar(&serve.listen, "listen", "127.0.0.1:7090", "the address to listen on")
	flags.StringArrayVar(&serve.hosts, "host", nil, "on a loopback address, answer for this host name too; can be given several times")
	connect.registerPolicy(command)
	connect.register(command)
	return command
}

// hostName is a host name in ASCII, as requests have it.
var hostName = regexp.MustCompile(`^[0-9a-z_-]+(\.[0-9a-z_-]+)*$`)

func (f *serveFlags) check() error {
	for i, name := range f.hosts {
		host := plainHost(name)
		if _, err := netip.ParseAddr(host); err != nil && !hostName.MatchString(host) {
			return usageError("-host %.60q is no host name: give it without a scheme and a port", name)
		}
		f.hosts[i] = host
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return usageError("-listen: %w", err)
	}
	return nil
}

// run serves the page until the command is interrupted.
func (f *serveFlags) run(command *cobra.Command, inspector *insight.Inspector) error {
	_, away := meet(command, inspector)
	if away != nil && (exitStatus(away) != exitUnreachable || redis.IsAuthError(away)) {
		return away
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return usageError("-listen: %w", err)
	}
	named := "" // in the commands that the page shows; the environment has what was not given
	if command.Flags().Changed("redis") {
		named = inspector.Address
	}
	handler := page.New(inspector, named).Handler()
	if bound, ok := listener.Addr().(*net.TCPAddr); ok && bound.IP.IsLoopback() {
		handler = onlyLoopback(handler, f.hosts)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(command.OutOrStdout(), "http://%s/ shows %s. Ctrl-C ends it.\n", listener.Addr(), inspector.Address)
	if away != nil {
		fmt.Fprintln(command.ErrOrStderr(), "priorityctl:", insight.OneLine(inspector.Hidden(away))+"; the page says so until it can")
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err = <-failed:
	case <-command.Context().Done():
		err = nil // Shutdown ends it like this
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
