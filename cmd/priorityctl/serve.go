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
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/page"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

const serveLong = `Serve shows the fleet as a page: who is busy, why a customer is slow, what operators
have set. It is read-only, and on this machine only, unless you say otherwise. It asks
for no login: whoever reaches -listen reads all customers' names and the log.

  priorityctl serve            http://127.0.0.1:7090/, read-only
  priorityctl serve -write     users of this machine may change things
  priorityctl serve -listen :7090 -user-header X-Forwarded-User

With -write, the log names -by for every change. With -user-header, whoever a
proxy names in that header may change things: make sure that only the proxy can
reach the address, and that it removes the header from the requests that it
receives. On a loopback address only requests for this machine's own names are
answered: if a proxy passes on the Host that it receives, name it by -host. A
team's own server can mount the page too: see docs/control.md.

Serve starts while Redis cannot be reached, and the page says so until it can.`

// shutdownTime is how long requests may take when the program ends.
const shutdownTime = 5 * time.Second

// betweenMeetings is how long to wait for a Redis that could not be reached.
const betweenMeetings = time.Second

type serveFlags struct {
	listen     string
	write      bool
	by         string
	userHeader string
	hosts      []string
}

func newServe() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var serve serveFlags
	command := &cobra.Command{
		Use:               "serve",
		Short:             "Shows the fleet as a page, on this machine",
		Long:              serveLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE:           func(command *cobra.Command, _ []string) error { return serve.check(command) },
	}
	command.RunE = func(command *cobra.Command, _ []string) error {
		rules, err := policies.read(command)
		if err != nil {
			return err
		}
		c, err := connect.connection(command, rules)
		if err != nil {
			return err
		}
		defer c.Client.Close()
		return c.Hidden(serve.run(command, c))
	}
	flags := command.Flags()
	flags.StringVar(&serve.listen, "listen", "127.0.0.1:7090", "the address to listen on")
	flags.BoolVar(&serve.write, "write", false, "let whoever reaches the address change things; on a loopback address only")
	flags.StringVar(&serve.by, "by", "", "who does it, with -write (default: the user of this system)")
	flags.StringVar(&serve.userHeader, "user-header", "", "let those change things whom a proxy names in this header")
	flags.StringArrayVar(&serve.hosts, "host", nil, "on a loopback address, answer for this host name too, which a proxy passes on; can be given several times")
	connect.register(command)
	policies.register(command)
	return command
}

// headerName is what RFC 9110 calls a token.
var headerName = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$")

// hostName is a host name in ASCII, as requests have it.
var hostName = regexp.MustCompile(`^[0-9a-z_-]+(\.[0-9a-z_-]+)*$`)

func (f *serveFlags) check(command *cobra.Command) error {
	for i, name := range f.hosts {
		host := plainHost(name)
		if _, err := netip.ParseAddr(host); err != nil && !hostName.MatchString(host) {
			return usageError("-host %.60q is no host name: give it without a scheme and a port", name)
		}
		f.hosts[i] = host
	}
	host, _, err := net.SplitHostPort(f.listen)
	switch {
	case err != nil:
		return usageError("-listen: %w", err)
	case command.Flags().Changed("user-header") && !headerName.MatchString(f.userHeader):
		return usageError("-user-header %.60q is no name of a header", f.userHeader)
	case len(f.by) > control.MaxByBytes:
		return usageError("-by has %d bytes, more than the log's %d", len(f.by), control.MaxByBytes)
	case !utf8.ValidString(f.by):
		return usageError("-by %.60q is not UTF-8", f.by)
	case f.write && f.userHeader != "":
		return usageError("-write lets everybody change things, and -user-header only some: choose one")
	case f.write && !loopback(host):
		return usageError("-write on %s would let the whole network change things: listen on 127.0.0.1, or name a proxy's -user-header", f.listen)
	}
	return nil
}

// run serves the page until the command is interrupted.
func (f *serveFlags) run(command *cobra.Command, c *connection) error {
	away := c.meet(command)
	if away != nil && !passes(away) {
		return away
	}
	operators, err := page.New(c.Client, &page.Options{
		Store:  priority.RedisOptions{Policy: c.Policy.Policy, Tiers: c.Options.Tiers, TierOf: c.Options.TierOf, Prefix: c.Prefix},
		Server: c.Server, Secrets: c.Secrets, Authorize: f.authorize(command),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return usageError("-listen: %w", err)
	}
	handler := http.Handler(operators)
	if bound, ok := listener.Addr().(*net.TCPAddr); ok && bound.IP.IsLoopback() {
		handler = onlyLoopback(handler, f.hosts)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute}
	mode := "read-only"
	switch {
	case f.write:
		mode = "changes are recorded as by " + (&changeFlags{by: f.by}).author(command)
	case f.userHeader != "":
		mode = "changes by those whom " + f.userHeader + " names"
	}
	fmt.Fprintf(command.OutOrStdout(), "http://%s/ shows %s, %s. Ctrl-C ends it.\n", listener.Addr(), c.Server.Address, mode)

	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	if away != nil {
		fmt.Fprintln(command.ErrOrStderr(), "priorityctl:", insight.OneLine(c.Hidden(away))+"; the page says so until it can")
		go func() {
			if err := c.await(command); err != nil {
				failed <- err
			}
		}()
	}
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
	return errors.Join(err, operators.Close(ctx))
}

// passes reports whether Redis may be reached later. A login that it refuses stays refused.
func passes(err error) bool {
	return exitStatus(err) == exitUnreachable && !redis.IsAuthError(err)
}

// await returns nil once Redis answers, or why it is not the Redis that it should
// be.
func (c *connection) await(command *cobra.Command) error {
	for {
		select {
		case <-command.Context().Done():
			return nil
		case <-time.After(betweenMeetings):
		}
		if err := c.meet(command); err == nil || !passes(err) {
			return err
		}
	}
}

// authorize says who may change things, nil if nobody may.
func (f *serveFlags) authorize(command *cobra.Command) func(*http.Request) (string, bool) {
	switch {
	case f.write:
		author := (&changeFlags{by: f.by}).author(command)
		return func(*http.Request) (string, bool) { return author, true }
	case f.userHeader != "":
		return func(r *http.Request) (string, bool) {
			names := r.Header.Values(f.userHeader)
			return r.Header.Get(f.userHeader), len(names) == 1 && names[0] != ""
		}
	}
	return nil
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
