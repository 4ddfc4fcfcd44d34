// Package redisurl makes a Redis client from one URL, whatever kind of Redis it
// names.
package redisurl

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/internal/insight"
	"github.com/redis/go-redis/v9"
)

// Forms explains the URLs that Parse takes.
const Forms = `  redis://[user@]host[:6379][/database]              one server
  redis+cluster://host:port[,host:port…]             a Redis Cluster
  redis+sentinel://host[:26379][,host…]/master[/db]  the master of sentinels
  unix:///path/to/redis.sock                         a server on this machine
  rediss…:// instead of redis…://                    the same by TLS
The query takes go-redis's options, as ?read_timeout=5s.`

// Target is a Redis that can be connected to.
type Target struct {
	Kind insight.Kind
	TLS  bool

	// Exactly one of these is set.
	single   *redis.Options
	cluster  *redis.ClusterOptions
	failover *redis.FailoverOptions

	scheme string   // redis or rediss
	user   string   // that the URL names
	hosts  []string // host:port; empty: a socket of this machine
	// database is the path that names a database, such as "/3", or "".
	database string
	shown    string
}

// Login says who connects. For empty fields, the URL decides.
type Login struct {
	User, Password                 string
	SentinelUser, SentinelPassword string
}

// Parse reads a URL. Its errors never show what may be part of a password.
func Parse(text string) (*Target, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return nil, errors.New("it has no scheme; begin it with redis:// or rediss://")
	}
	base, kind, _ := strings.Cut(scheme, "+")
	if base != "redis" && base != "rediss" && scheme != "unix" {
		return nil, errors.New("its scheme is unknown; it is redis, rediss or unix, or redis+cluster, rediss+cluster, redis+sentinel, rediss+sentinel")
	}
	parts, err := split(rest)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "":
		return parseSingle(scheme, text, parts)
	case "cluster":
		return parseCluster(base, parts)
	case "sentinel":
		return parseSentinel(base, parts)
	}
	return nil, fmt.Errorf("redis+cluster and redis+sentinel are known, not redis+%.20s", kind)
}

// String returns the URL without a password.
func (t *Target) String() string { return t.shown }

// As returns the URL that names the same servers as another kind of Redis, without
// a password: a server, a cluster, or the sentinels of a master.
func (t *Target) As(kind insight.Kind, master string) string {
	hosts, user := t.hosts, ""
	if len(hosts) == 0 {
		hosts = []string{"host:port"}
	}
	if t.user != "" {
		user = t.user + "@"
	}
	switch kind {
	case insight.Cluster:
		return t.scheme + "+cluster://" + user + strings.Join(hosts, ",")
	case insight.Sentinel:
		return t.scheme + "+sentinel://" + user + strings.Join(hosts, ",") + "/" + url.PathEscape(master) + t.database
	}
	return t.scheme + "://" + user + hosts[0] + t.database
}

// Master is the name of the master that sentinels are asked for, else empty.
func (t *Target) Master() string {
	if t.failover == nil {
		return ""
	}
	return t.failover.MasterName
}

// Servers returns a client for each server that the URL names, and for a sentinel
// two: with its own login and with Redis's.
func (t *Target) Servers(timeout time.Duration) (clients []*redis.Client) {
	logins := []Login{{}}
	logins[0].User, logins[0].Password = t.login()
	if t.failover != nil {
		logins = append(logins, Login{User: t.failover.SentinelUsername, Password: t.failover.SentinelPassword})
	}
	for _, host := range t.hosts {
		for _, login := range logins {
			o := redis.Options{Addr: host, Username: login.User, Password: login.Password, TLSConfig: t.TLSConfig(), MaxRetries: -1}
			limit(timeout, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
			o.DialerRetries, o.ContextTimeoutEnabled = 1, true
			clients = append(clients, redis.NewClient(&o))
		}
	}
	return clients
}

// Use sets who connects.
func (t *Target) Use(login Login) error {
	switch {
	case t.single != nil:
		set(&t.single.Username, login.User)
		set(&t.single.Password, login.Password)
	case t.cluster != nil:
		set(&t.cluster.Username, login.User)
		set(&t.cluster.Password, login.Password)
	default:
		set(&t.failover.Username, login.User)
		set(&t.failover.Password, login.Password)
		set(&t.failover.SentinelUsername, login.SentinelUser)
		set(&t.failover.SentinelPassword, login.SentinelPassword)
	}
	if user, password := t.login(); user != "" && password == "" {
		return fmt.Errorf("there is no password for the user %q", user)
	}
	return nil
}

// Secrets returns the passwords, which no output may show.
func (t *Target) Secrets() []string {
	_, password := t.login()
	secrets := []string{password}
	if t.failover != nil {
		secrets = append(secrets, t.failover.SentinelPassword)
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
}

// TLSConfig returns the TLS configuration, which may be changed before Client; nil
// without TLS.
func (t *Target) TLSConfig() *tls.Config {
	switch {
	case t.single != nil:
		return t.single.TLSConfig
	case t.cluster != nil:
		return t.cluster.TLSConfig
	}
	return t.failover.TLSConfig
}

// Client returns a client that waits for at most timeout to connect, to send
// and to receive. It does not connect yet.
func (t *Target) Client(timeout time.Duration) redis.UniversalClient {
	switch {
	case t.single != nil:
		o := *t.single
		limit(timeout, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
		o.DialerRetries, o.ContextTimeoutEnabled = 1, true
		return redis.NewClient(&o)
	case t.cluster != nil:
		o := *t.cluster
		limit(timeout, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
		o.DialerRetries, o.ContextTimeoutEnabled = 1, true
		return redis.NewClusterClient(&o)
	}
	o := *t.failover
	limit(timeout, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
	o.DialerRetries, o.ContextTimeoutEnabled = 1, true
	return redis.NewFailoverClient(&o)
}

func (t *Target) login() (user, password string) {
	switch {
	case t.single != nil:
		return t.single.Username, t.single.Password
	case t.cluster != nil:
		return t.cluster.Username, t.cluster.Password
	}
	return t.failover.Username, t.failover.Password
}

func set(field *string, value string) {
	if value != "" {
		*field = value
	}
}

// limit sets the times that the URL leaves open.
func limit(timeout time.Duration, fields ...*time.Duration) {
	for _, field := range fields {
		if *field == 0 {
			*field = timeout
		}
	}
}

// parts are the parts of a URL behind its scheme.
type parts struct {
	user  *url.Userinfo
	hosts []string // host:port, host or [address]:port
	path  string   // without the slash before it
	query url.Values
}

// split takes a URL apart. Package url would refuse several hosts, and show
// passwords in its errors.
func split(rest string) (parts, error) {
	var p parts
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if strings.Contains(tail, "@") {
		return p, errors.New("there is an @ behind its host: write special characters of a password as %2F and the like, or give it by PRIORITY_REDIS_PASSWORD or -password-file")
	}
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		user, err := url.Parse("//" + authority[:i] + "@host")
		if err != nil {
			return p, errors.New("its user or password cannot be read: write special characters as %40 and the like, or give the password by PRIORITY_REDIS_PASSWORD or -password-file")
		}
		p.user, authority = user.User, authority[i+1:]
	}
	p.hosts = strings.Split(authority, ",")
	pathAndQuery, err := url.Parse(tail)
	if err != nil {
		return p, errors.New("its path or query cannot be read")
	}
	if p.query, err = url.ParseQuery(pathAndQuery.RawQuery); err != nil {
		return p, errors.New("its query cannot be read")
	}
	p.path = strings.Trim(pathAndQuery.Path, "/")
	return p, nil
}

// address returns host:port of the i-th host.
func (p parts) address(i int, defaultPort string) (string, error) {
	host, port, err := net.SplitHostPort(p.hosts[i])
	if err != nil {
		host, port = strings.Trim(p.hosts[i], "[]"), defaultPort
	}
	if port == "" {
		port = defaultPort
	}
	if strings.Trim(port, "0123456789") != "" || strings.ContainsAny(host, " []") {
		return "", errors.New("its hosts are not host:port")
	}
	if host == "" { // an unset variable, and not this machine
		return "", errors.New("it names no host")
	}
	return net.JoinHostPort(host, port), nil
}

// url returns what go-redis's parsers read: one host, the others in the query. It
// also returns all hosts, with their ports.
func (p parts) url(scheme, path, defaultPort string) (text string, hosts []string, err error) {
	for i := range p.hosts {
		host, err := p.address(i, defaultPort)
		if err != nil {
			return "", nil, err
		}
		hosts = append(hosts, host)
		if i > 0 {
			p.query.Add("addr", host)
		}
	}
	u := url.URL{Scheme: scheme, User: p.user, Host: hosts[0], Path: path, RawQuery: p.query.Encode()}
	return u.String(), hosts, nil
}

func parseSingle(scheme, text string, p parts) (*Target, error) {
	if scheme == "unix" {
		options, err := redis.ParseURL(text)
		if err != nil {
			return nil, plain(err)
		}
		return &Target{Kind: insight.SingleServer, single: options, scheme: "redis", user: options.Username, shown: "unix://" + options.Addr}, nil
	}
	if len(p.hosts) > 1 {
		return nil, errors.New("only redis+cluster:// and redis+sentinel:// take several hosts")
	}
	path := ""
	if p.path != "" {
		path = "/" + p.path
	}
	text, hosts, err := p.url(scheme, path, "6379")
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseURL(text)
	if err != nil {
		return nil, plain(err)
	}
	t := &Target{Kind: insight.SingleServer, TLS: scheme == "rediss", single: options, scheme: scheme, user: p.user.Username(), hosts: hosts, database: path}
	t.shown = t.As(t.Kind, "")
	return t, nil
}

func parseCluster(scheme string, p parts) (*Target, error) {
	if p.path != "" && p.path != "0" {
		return nil, errors.New("a cluster has no database but 0")
	}
	text, hosts, err := p.url(scheme, "", "6379")
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseClusterURL(text)
	if err != nil {
		return nil, plain(err)
	}
	t := &Target{Kind: insight.Cluster, TLS: scheme == "rediss", cluster: options, scheme: scheme, user: p.user.Username(), hosts: hosts}
	t.shown = t.As(t.Kind, "")
	return t, nil
}

func parseSentinel(scheme string, p parts) (*Target, error) {
	master, database, _ := strings.Cut(p.path, "/")
	if master == "" {
		return nil, errors.New("the name of the master is missing: redis+sentinel://host:26379/master")
	}
	// The user of such a URL is Redis's; go-redis would take it for the sentinels'.
	user := p.user
	p.user = nil
	p.query.Set("master_name", master)
	text, hosts, err := p.url(scheme, "/"+database, "26379")
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseFailoverURL(text)
	if err != nil {
		return nil, plain(err)
	}
	options.Username = user.Username()
	options.Password, _ = user.Password()
	t := &Target{Kind: insight.Sentinel, TLS: scheme == "rediss", failover: options, scheme: scheme, user: options.Username, hosts: hosts}
	if database != "" {
		t.database = "/" + database
	}
	t.shown = t.As(t.Kind, master)
	return t, nil
}

// plain removes the prefixes of go-redis's errors.
func plain(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "redis: "))
}
