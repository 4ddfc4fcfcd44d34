package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
)

const (
	urlVariable      = "PRIORITY_REDIS_URL"
	passwordVariable = "PRIORITY_REDIS_PASSWORD"
	sentinelVariable = "PRIORITY_SENTINEL_PASSWORD"

	defaultURL = "redis://localhost:6379"
)

const connectionHelp = `-redis URL, or else ` + urlVariable + `, names Redis
(default ` + defaultURL + `):
  redis://[user@]host[:6379][/database]         one server
  redis+cluster://host:port[,host:port…]        a Redis Cluster
  redis+sentinel://host[:26379][,…]/master[/db] the master of sentinels
  unix:///path/to/redis.sock                    a server on this machine
  rediss…:// instead of redis…://               the same over TLS
-prefix TEXT           what the keys begin with (default ` + insight.DefaultPrefix + `)
-timeout TIME          how long one call to Redis may take (default 2s)
-user NAME             the user of Redis (default: the URL's)
-password-file FILE    has the password, or else ` + passwordVariable + `, which
                       this user's other processes can read
-sentinel-user NAME    the user of the sentinels, whose password is
                       ` + sentinelVariable + `
-tls-ca FILE           PEM of the authorities to trust (default: the system's)
-tls-cert FILE, -tls-key FILE    PEM of the client's certificate and key
-tls-server-name NAME  the name in the server's certificate (default: the host)
No password is ever printed.`

// connectionFlags say where Redis is and who asks.
type connectionFlags struct {
	url, prefix                       string
	timeout                           time.Duration
	user, passwordFile                string
	sentinelUser                      string
	tlsCA, tlsCert, tlsKey, tlsServer string
	help                              bool

	policy string // a file; only commands that read customers have the flag
}

// register adds the flags, which -help leaves to -help-connection.
func (f *connectionFlags) register(command *cobra.Command) {
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.url, "redis", "", "")
	flags.StringVar(&f.prefix, "prefix", insight.DefaultPrefix, "")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Second, "")
	flags.StringVar(&f.user, "user", "", "")
	flags.StringVar(&f.passwordFile, "password-file", "", "")
	flags.StringVar(&f.sentinelUser, "sentinel-user", "", "")
	flags.StringVar(&f.tlsCA, "tls-ca", "", "")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "")
	flags.StringVar(&f.tlsKey, "tls-key", "", "")
	flags.StringVar(&f.tlsServer, "tls-server-name", "", "")
	for _, name := range []string{"redis", "prefix", "timeout", "user", "password-file", "sentinel-user", "tls-ca", "tls-cert", "tls-key", "tls-server-name"} {
		_ = flags.MarkHidden(name)
	}
	flags.BoolVar(&f.help, "help-connection", false, "say how to name Redis, with all flags for it")
}

func (f *connectionFlags) registerPolicy(command *cobra.Command) {
	command.Flags().StringVar(&f.policy, "policy", "", "the workers' own policy, a file, which applies if operators have set none")
}

// connection is Redis as the commands see it.
type connection struct {
	*insight.Snapshot
}

// connected returns a command that does something on Redis, once check has found the flags
// right; nil: they always are.
func connected(flags *connectionFlags, check func(command *cobra.Command) error, do func(command *cobra.Command, c *connection, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		if flags.help {
			_, err := fmt.Fprintln(command.OutOrStdout(), connectionHelp)
			return err
		}
		if check != nil {
			if err := check(command); err != nil {
				return err
			}
		}
		inspector, err := flags.inspector(command)
		if err != nil {
			return err
		}
		defer inspector.Client.Close()
		c, err := meet(command, inspector)
		if err == nil {
			err = unreachable(inspector, do(command, c, args))
		}
		return inspector.Hidden(err)
	}
}

// inspector returns what looks at the fleet. It sends nothing.
func (f *connectionFlags) inspector(command *cobra.Command) (*insight.Inspector, error) {
	if f.timeout < time.Millisecond {
		return nil, usageError("-timeout %v is less than 1ms", f.timeout)
	}
	t, secrets, err := f.target(command)
	if err != nil {
		return nil, err
	}
	options := insight.Options{Prefix: f.prefix, Timeout: f.timeout, Address: t.shown, Secrets: secrets}
	if f.policy != "" {
		if options.Own, options.Name, err = readRules(f.policy, command.InOrStdin()); err != nil {
			return nil, err
		}
	}
	logging.Disable() // the errors say what matters
	client := t.client(f.timeout)
	inspector, err := insight.New(client, options)
	if err != nil {
		_ = client.Close()
	}
	return inspector, err
}

// target reads the URL, the login and the certificates.
func (f *connectionFlags) target(command *cobra.Command) (t *target, secrets []string, err error) {
	env := environmentOf(command)
	text, source := f.url, "-redis"
	if text == "" {
		text, source = env.getenv(urlVariable), urlVariable
	}
	if text == "" {
		if text = env.defaultURL; text == "" {
			return nil, nil, usageError("no Redis is named: give -redis or set %s", urlVariable)
		}
		fmt.Fprintf(command.ErrOrStderr(), "priorityctl: no -redis and no %s: using %s\n", urlVariable, text)
	}
	if t, err = parseURL(text); err != nil {
		return nil, nil, usageError("%s: %w", source, err)
	}
	user, password := t.login()
	*user = cmp.Or(f.user, *user)
	*password = cmp.Or(env.getenv(passwordVariable), *password)
	if f.passwordFile != "" {
		held, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return nil, nil, usageError("-password-file: %w", err)
		}
		*password = strings.TrimRight(string(held), "\r\n")
	}
	if *user != "" && *password == "" {
		return nil, nil, usageError("there is no password for the user %q: set %s or -password-file", *user, passwordVariable)
	}
	if *password != "" {
		secrets = append(secrets, *password)
	}
	if t.sentinel != nil {
		t.sentinel.SentinelUsername, t.sentinel.SentinelPassword = f.sentinelUser, env.getenv(sentinelVariable)
		if t.sentinel.SentinelPassword != "" {
			secrets = append(secrets, t.sentinel.SentinelPassword)
		}
	}
	return t, secrets, f.trust(t.tls())
}

// trust applies the flags about certificates.
func (f *connectionFlags) trust(config *tls.Config) error {
	if config == nil {
		if f.tlsCA+f.tlsCert+f.tlsKey+f.tlsServer != "" {
			return usageError("the flags -tls-… need a URL with TLS: rediss://")
		}
		return nil
	}
	config.ServerName = cmp.Or(f.tlsServer, config.ServerName)
	if f.tlsCA != "" {
		pem, err := os.ReadFile(f.tlsCA)
		config.RootCAs = x509.NewCertPool()
		if err == nil && !config.RootCAs.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("there is no certificate in %s", f.tlsCA)
		}
		if err != nil {
			return usageError("-tls-ca: %w", err)
		}
	}
	if f.tlsCert+f.tlsKey != "" {
		pair, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			return usageError("-tls-cert, -tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// meet looks at the fleet, if Redis is what its URL says and the command may work there.
func meet(command *cobra.Command, inspector *insight.Inspector) (*connection, error) {
	ctx := command.Context()
	if err := recognize(ctx, inspector); err != nil {
		return nil, err
	}
	snapshot, err := inspector.Look(ctx)
	if err != nil {
		return nil, unreachable(inspector, err)
	}
	c := &connection{snapshot}
	if replica := snapshot.Replica(); replica != "" {
		if command.Flags().Lookup("why") != nil {
			return nil, usageError("%s is %s, where nothing can be changed: name the master", inspector.Address, replica)
		}
		fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s is %s: it may be behind its master\n", inspector.Address, replica)
	}
	return c, nil
}

// recognize checks that a single server is one: a node of a cluster would answer for its
// share of the customers, as if there were no others.
func recognize(ctx context.Context, inspector *insight.Inspector) error {
	if scheme, _, _ := strings.Cut(inspector.Address, "://"); strings.Contains(scheme, "+") {
		return nil // go-redis has asked whether it is a cluster or a sentinel
	}
	info, err := inspector.Client.Info(ctx, "server").Result()
	address := strings.TrimPrefix(strings.TrimPrefix(inspector.Address, "rediss://"), "redis://")
	switch {
	case err != nil && !redis.IsPermissionError(err):
		return unreachable(inspector, err)
	case strings.Contains(info, "redis_mode:cluster"):
		return usageError("%s is a node of a cluster, and has only its share of the customers: name the whole cluster, redis+cluster://%s", inspector.Address, address)
	case strings.Contains(info, "redis_mode:sentinel"):
		return usageError("%s is a sentinel, which has no customers: name its master, redis+sentinel://%s/MASTER", inspector.Address, address)
	}
	return nil
}

// unreachable marks errors of an unreachable Redis.
func unreachable(inspector *insight.Inspector, err error) error {
	var known statusError
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, priority.ErrOutcomeUnknown):
		return err
	case redis.IsAuthError(err):
		return statusError{exitUnreachable, fmt.Errorf("%s refuses the login: %w (check -user and %s or -password-file)", inspector.Address, err, passwordVariable)}
	case insight.Unreachable(err):
		return statusError{exitUnreachable, fmt.Errorf("cannot reach %s: %w", inspector.Address, err)}
	}
	return err
}
