package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/redisurl"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
)

const (
	urlVariable              = "PRIORITY_REDIS_URL"
	passwordVariable         = "PRIORITY_REDIS_PASSWORD"
	sentinelPasswordVariable = "PRIORITY_SENTINEL_PASSWORD"

	defaultURL = "redis://localhost:6379"
)

const connectionHelp = `Redis is named by -redis or else by ` + urlVariable + `. If neither names one, it
is ` + defaultURL + `, and a line on stderr says so. URLs:
` + redisurl.Forms + `
A password is best given by -password-file, a file with mode 600, or by
` + passwordVariable + `, which this user's other processes can read; that of sentinels by ` + sentinelPasswordVariable + `. No password is ever printed.`

// connectionFlags say where Redis is and who asks.
type connectionFlags struct {
	url          string
	user         string
	passwordFile string
	sentinelUser string
	tlsCA        string
	tlsCert      string
	tlsKey       string
	tlsServer    string
	prefix       string
	timeout      time.Duration
}

func (f *connectionFlags) register(command *cobra.Command) {
	flags := command.Flags()
	// The variable is no default here: the help would print its password.
	flags.StringVar(&f.url, "redis", "", "URL of Redis (default $"+urlVariable+", or else "+defaultURL+")")
	flags.StringVar(&f.user, "user", "", "user of Redis (default: the URL's)")
	flags.StringVar(&f.passwordFile, "password-file", "", "read the password from this file (default $"+passwordVariable+")")
	flags.StringVar(&f.sentinelUser, "sentinel-user", "", "user of the sentinels")
	flags.StringVar(&f.tlsCA, "tls-ca", "", "PEM file of the authorities to trust (default: the system's)")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "PEM file of the client's certificate")
	flags.StringVar(&f.tlsKey, "tls-key", "", "PEM file of its key")
	flags.StringVar(&f.tlsServer, "tls-server-name", "", "name in the server's certificate (default: the URL's host)")
	flags.StringVar(&f.prefix, "prefix", insight.DefaultPrefix, "what the keys begin with: RedisOptions.Prefix")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Second, "how long one call of Redis may take")
}

// connection is Redis as the commands see it.
type connection struct {
	insight.Inspector
	target     *redisurl.Target
	timeout    time.Duration
	replica    string         // what to call it, if the server is one
	reports    []fleet.Report // of the workers, as fit has read them
	unreported error          // why fit has not read them
}

// Hidden returns the error without passwords. An error of usage has no password,
// but may have the same word.
func (c *connection) Hidden(err error) error {
	var known statusError
	if errors.As(err, &known) && known.status == exitUsage {
		return err
	}
	return c.Inspector.Hidden(err)
}

// ownRules are the flags that state the workers' own options.
type ownRules interface {
	read(command *cobra.Command) (insight.NamedRules, error)
}

// connected returns a command that does something on Redis.
func connected(flags *connectionFlags, own ownRules, do func(command *cobra.Command, c *connection, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		rules, err := own.read(command)
		if err != nil {
			return err
		}
		c, err := flags.connection(command, rules)
		if err != nil {
			return err
		}
		defer c.Client.Close()
		if err := c.meet(command); err != nil {
			return c.Hidden(err)
		}
		return c.Hidden(do(command, c, args))
	}
}

// connection returns the commands' connection. It sends nothing.
func (f *connectionFlags) connection(command *cobra.Command, rules insight.NamedRules) (*connection, error) {
	if f.timeout < time.Millisecond {
		return nil, usageError("-timeout %v is less than 1ms", f.timeout)
	}
	target, err := f.target(command)
	if err != nil {
		return nil, err
	}
	logging.Disable() // the errors say what matters
	c := &connection{target: target, timeout: f.timeout, Inspector: insight.Inspector{
		Client: target.Client(f.timeout), Prefix: cmp.Or(f.prefix, insight.DefaultPrefix),
		Server:  insight.Server{Address: target.String(), Kind: target.Kind, TLS: target.TLS},
		Secrets: target.Secrets(),
	}}
	c.Options = priority.RedisOptions{
		Prefix: c.Prefix, Timeout: f.timeout,
		TierOf:    func(string) string { return "" }, // only the workers know their customers' tiers
		Overrides: true,
	}
	if err = c.goBy(rules); err != nil {
		_ = c.Client.Close()
		return nil, c.Hidden(err)
	}
	return c, nil
}

// goBy makes rules the workers' own options.
func (c *connection) goBy(rules insight.NamedRules) (err error) {
	c.Policy = insight.NamedPolicy{Policy: rules.Policy, Name: rules.Name}
	c.Options.Policy, c.Options.Tiers = rules.Policy, rules.Tiers
	if c.Store, err = priority.NewRedisStore(c.Client, &c.Options); err == nil {
		c.Admin, err = control.NewAdmin(c.Client, &control.AdminOptions{Prefix: c.Prefix, Levels: rules.Policy.Last(), Timeout: c.timeout})
	}
	return err
}

// meet checks that Redis answers, that it is what its URL says, and that the command may
// work there.
func (c *connection) meet(command *cobra.Command) error {
	ctx := command.Context()
	if err := c.reach(ctx); err != nil {
		return err
	}
	if err := c.recognize(ctx, c.target); err != nil {
		return err
	}
	return c.mayChange(command)
}

// target reads the URL, the login and the certificates.
func (f *connectionFlags) target(command *cobra.Command) (*redisurl.Target, error) {
	env := environmentOf(command)
	text, source := f.url, "-redis"
	if text == "" {
		text, source = env.getenv(urlVariable), urlVariable
	}
	if text == "" {
		if env.defaultURL == "" {
			return nil, usageError("no Redis is named: give -redis or set %s", urlVariable)
		}
		text = env.defaultURL
		fmt.Fprintf(command.ErrOrStderr(), "priorityctl: no -redis and no %s: using %s\n", urlVariable, text)
	}
	target, err := redisurl.Parse(text)
	if err != nil {
		return nil, usageError("%s: %w", source, err)
	}
	login := redisurl.Login{
		User: f.user, Password: env.getenv(passwordVariable),
		SentinelUser: f.sentinelUser, SentinelPassword: env.getenv(sentinelPasswordVariable),
	}
	if f.passwordFile != "" {
		held, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return nil, usageError("-password-file: %w", err)
		}
		if login.Password = strings.TrimRight(string(held), "\r\n"); login.Password == "" {
			return nil, usageError("-password-file: %s is empty", f.passwordFile)
		}
	}
	if err := target.Use(login); err != nil {
		return nil, usageError("%w: set %s or -password-file", err, passwordVariable)
	}
	return target, f.trust(target)
}

// trust applies the flags about certificates.
func (f *connectionFlags) trust(target *redisurl.Target) error {
	config := target.TLSConfig()
	if config == nil {
		if f.tlsCA+f.tlsCert+f.tlsKey+f.tlsServer != "" {
			return usageError("the flags -tls-… need a URL with TLS: rediss://")
		}
		return nil
	}
	if f.tlsServer != "" {
		config.ServerName = f.tlsServer
	}
	if f.tlsCA != "" {
		pem, err := os.ReadFile(f.tlsCA)
		if err != nil {
			return usageError("-tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return usageError("-tls-ca: there is no certificate in %s", f.tlsCA)
		}
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return usageError("-tls-cert and -tls-key go together")
	}
	if f.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			return usageError("-tls-cert, -tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// reach checks that Redis answers.
func (c *connection) reach(ctx context.Context) error {
	err := c.Client.Ping(ctx).Err()
	switch {
	case err == nil, redis.IsPermissionError(err):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case redis.IsAuthError(err):
		return statusError{exitUnreachable, fmt.Errorf("%s refuses the login: %w (check -user and %s or -password-file)", c.Server.Address, err, passwordVariable)}
	}
	if err := misnamed(ctx, c.target, c.timeout); err != nil {
		return err
	}
	hint := ""
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	switch {
	case errors.As(err, &authority):
		hint = " (name its authority with -tls-ca)"
	case errors.As(err, &hostname):
		hint = " (name its certificate with -tls-server-name)"
	case timedOut(err) && c.accepts(ctx):
		hint = " (it accepts connections and does not answer: it hangs, or expects TLS)"
	case timedOut(err):
		hint = " (is -timeout too short?)"
	}
	return statusError{exitUnreachable, fmt.Errorf("cannot reach %s: %w%s", c.Server.Address, err, hint)}
}

func timedOut(err error) bool {
	var slow interface{ Timeout() bool }
	return errors.As(err, &slow) && slow.Timeout()
}

// accepts reports whether one of the servers that the URL names accepts connections.
func (c *connection) accepts(ctx context.Context) bool {
	for _, server := range c.target.Servers(c.timeout) {
		options := server.Options()
		_ = server.Close()
		dialer := net.Dialer{Timeout: c.timeout}
		if connected, err := dialer.DialContext(ctx, options.Network, options.Addr); err == nil {
			_ = connected.Close()
			return true
		}
	}
	return false
}
