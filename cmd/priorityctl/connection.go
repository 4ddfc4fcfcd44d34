package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/internal/keys"
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
-prefix TEXT           what the keys begin with (default ` + keys.DefaultPrefix + `)
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
}

// register adds the flags, which -help leaves to -help-connection.
func (f *connectionFlags) register(flags *pflag.FlagSet) {
	hidden := pflag.NewFlagSet("", pflag.ContinueOnError)
	hidden.StringVar(&f.url, "redis", "", "")
	hidden.StringVar(&f.prefix, "prefix", keys.DefaultPrefix, "")
	hidden.DurationVar(&f.timeout, "timeout", 2*time.Second, "")
	hidden.StringVar(&f.user, "user", "", "")
	hidden.StringVar(&f.passwordFile, "password-file", "", "")
	hidden.StringVar(&f.sentinelUser, "sentinel-user", "", "")
	hidden.StringVar(&f.tlsCA, "tls-ca", "", "")
	hidden.StringVar(&f.tlsCert, "tls-cert", "", "")
	hidden.StringVar(&f.tlsKey, "tls-key", "", "")
	hidden.StringVar(&f.tlsServer, "tls-server-name", "", "")
	hidden.VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
	flags.SortFlags = false
	flags.AddFlagSet(hidden)
	flags.BoolVar(&f.help, "help-connection", false, "say how to name Redis, with all flags for it")
}

// registerPolicy adds the flag -policy, for commands that read customers.
func registerPolicy(command *cobra.Command) {
	command.Flags().String("policy", "", "the workers' own policy, a file, which applies if operators have set none")
}

// inspector returns what looks at the fleet. It sends nothing.
func (f *connectionFlags) inspector(command *cobra.Command) (*insight.Inspector, error) {
	if f.timeout < time.Millisecond {
		return nil, usageError("-timeout %v is less than 1ms", f.timeout)
	}
	redisOptions, shown, err := f.redisOptions(command)
	if err != nil {
		return nil, err
	}
	options := insight.Options{Prefix: f.prefix, Timeout: f.timeout, Address: shown}
	for _, secret := range []string{redisOptions.Password, redisOptions.SentinelPassword} {
		if secret != "" {
			options.Secrets = append(options.Secrets, secret)
		}
	}
	if file, _ := command.Flags().GetString("policy"); file != "" {
		if options.Own, options.OwnSource, err = readPolicies(file, command.InOrStdin()); err != nil {
			return nil, err
		}
	}
	logging.Disable() // the errors say what matters
	client := environmentOf(command).connect(redisOptions)
	inspector, err := insight.New(client, options)
	if err != nil {
		_ = client.Close()
	}
	return inspector, err
}

// redisOptions reads the URL, the login and the certificates. shown is the URL without a
// password.
func (f *connectionFlags) redisOptions(command *cobra.Command) (options *redis.UniversalOptions, shown string, err error) {
	env := environmentOf(command)
	text, source := f.url, "-redis"
	if text == "" {
		text, source = env.getenv(urlVariable), urlVariable
	}
	if text == "" {
		if text = env.defaultURL; text == "" {
			return nil, "", usageError("no Redis is named: give -redis or set %s", urlVariable)
		}
		fmt.Fprintf(command.ErrOrStderr(), "priorityctl: no -redis and no %s: using %s\n", urlVariable, text)
	}
	if options, shown, err = parseURL(text); err != nil {
		return nil, "", usageError("%s: %w", source, err)
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = f.timeout, f.timeout, f.timeout
	options.DialerRetries, options.ContextTimeoutEnabled = 1, true
	options.Username = cmp.Or(f.user, options.Username)
	options.Password = cmp.Or(env.getenv(passwordVariable), options.Password)
	if f.passwordFile != "" {
		text, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return nil, "", usageError("-password-file: %w", err)
		}
		options.Password = strings.TrimRight(string(text), "\r\n")
	}
	if options.Username != "" && options.Password == "" {
		return nil, "", usageError("there is no password for the user %q: set %s or -password-file", options.Username, passwordVariable)
	}
	if options.MasterName != "" {
		options.SentinelUsername, options.SentinelPassword = f.sentinelUser, env.getenv(sentinelVariable)
	}
	return options, shown, f.trust(options.TLSConfig)
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
