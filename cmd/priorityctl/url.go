package main

import (
	"crypto/tls"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// target is a Redis that can be connected to, whatever kind it is. Exactly one of the
// options is set.
type target struct {
	shown    string // the URL without a password
	single   *redis.Options
	cluster  *redis.ClusterOptions
	sentinel *redis.FailoverOptions
}

// errURL does not show what may be part of a password.
var errURL = errors.New("it is not a URL of Redis: see -help-connection; write special characters of a password as %2F and the like, or give it by " + passwordVariable)

// parseURL reads a URL: go-redis's, redis+cluster://host:port,host… or
// redis+sentinel://host:port,host…/master/db, both with rediss too.
func parseURL(text string) (*target, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, errors.New("it has no scheme: begin it with redis://")
	}
	base, kind, _ := strings.Cut(scheme, "+")
	if kind == "" {
		options, err := redis.ParseURL(text)
		if err != nil {
			return nil, errURL
		}
		return &target{shown: withoutPassword(text), single: options}, nil
	}
	// go-redis reads one host, and the others in the query.
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	login, hosts := "", authority
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		login, hosts = authority[:i+1], authority[i+1:]
	}
	all := strings.Split(hosts, ",")
	one, err := url.Parse(base + "://" + login + all[0] + tail)
	if err != nil || base != "redis" && base != "rediss" {
		return nil, errURL
	}
	query := one.Query()
	for _, host := range all[1:] {
		query.Add("addr", host)
	}
	t := &target{shown: scheme + "://" + withoutPassword("redis://" + login + "h")[len("redis://"):]}
	t.shown = strings.TrimSuffix(t.shown, "h") + hosts + one.Path
	switch kind {
	case "cluster":
		one.RawQuery = query.Encode()
		t.cluster, err = redis.ParseClusterURL(one.String())
	case "sentinel":
		master, database, _ := strings.Cut(strings.Trim(one.Path, "/"), "/")
		if master == "" {
			return nil, errors.New("the name of the master is missing: redis+sentinel://host:26379/master")
		}
		// The user of such a URL is Redis's; go-redis would take it for the sentinels'.
		user := one.User
		one.User, one.Path = nil, "/"+database
		query.Set("master_name", master)
		one.RawQuery = query.Encode()
		if t.sentinel, err = redis.ParseFailoverURL(one.String()); err == nil {
			t.sentinel.Username = user.Username()
			t.sentinel.Password, _ = user.Password()
		}
	default:
		err = errURL
	}
	if err != nil {
		return nil, errURL
	}
	return t, nil
}

func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "Redis"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = ""
	return u.String()
}

// login returns pointers to user and password.
func (t *target) login() (user, password *string) {
	switch {
	case t.single != nil:
		return &t.single.Username, &t.single.Password
	case t.cluster != nil:
		return &t.cluster.Username, &t.cluster.Password
	}
	return &t.sentinel.Username, &t.sentinel.Password
}

// tls returns the TLS configuration; nil without TLS.
func (t *target) tls() *tls.Config {
	switch {
	case t.single != nil:
		return t.single.TLSConfig
	case t.cluster != nil:
		return t.cluster.TLSConfig
	}
	return t.sentinel.TLSConfig
}

// client returns a client that waits for at most timeout to connect, to send and to
// receive. It does not connect yet.
func (t *target) client(timeout time.Duration) redis.UniversalClient {
	switch {
	case t.single != nil:
		o := *t.single
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.DialerRetries, o.ContextTimeoutEnabled = timeout, timeout, timeout, 1, true
		return redis.NewClient(&o)
	case t.cluster != nil:
		o := *t.cluster
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.DialerRetries, o.ContextTimeoutEnabled = timeout, timeout, timeout, 1, true
		return redis.NewClusterClient(&o)
	}
	o := *t.sentinel
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.DialerRetries, o.ContextTimeoutEnabled = timeout, timeout, timeout, 1, true
	return redis.NewFailoverClient(&o)
}
