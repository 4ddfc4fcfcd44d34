package main

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// errURL does not show what may be part of a password.
var errURL = errors.New("it is not a URL of Redis: see -help-connection; write special characters of a password as %2F and the like, or give it by " + passwordVariable)

// parseURL reads a URL: go-redis's, redis+cluster://host:port,host… or
// redis+sentinel://host:port,host…/master/db, both with rediss too. shown is the URL without a
// password.
func parseURL(text string) (options *redis.UniversalOptions, shown string, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, "", errors.New("it has no scheme: begin it with redis://")
	}
	base, kind, _ := strings.Cut(scheme, "+")
	// go-redis reads one host, so the others are cut out.
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	at := strings.LastIndex(authority, "@") + 1
	hosts := strings.Split(authority[at:], ",")
	u, err := url.Parse(base + "://" + authority[:at] + hosts[0] + tail)
	if err != nil || kind == "" && len(hosts) > 1 || kind != "" && base != "redis" && base != "rediss" {
		return nil, "", errURL
	}
	safe := url.URL{Scheme: scheme, Host: strings.Join(hosts, ","), Path: u.Path}
	if name := u.User.Username(); name != "" {
		safe.User = url.User(name)
	}
	port, master := "6379", ""
	switch kind {
	case "", "cluster":
	case "sentinel":
		port = "26379"
		if master, u.Path, _ = strings.Cut(strings.Trim(u.Path, "/"), "/"); master == "" {
			return nil, "", errors.New("the name of the master is missing: redis+sentinel://host:26379/master")
		}
	default:
		return nil, "", errURL
	}
	one, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, "", errURL
	}
	if kind == "cluster" && one.DB != 0 {
		return nil, "", errors.New("a Redis Cluster has no database but 0: leave it out")
	}
	options = &redis.UniversalOptions{
		Addrs: []string{one.Addr}, DB: one.DB, Username: one.Username, Password: one.Password, TLSConfig: one.TLSConfig,
		ClientName: one.ClientName, Protocol: one.Protocol, MaxRetries: one.MaxRetries,
		MasterName: master, IsClusterMode: kind == "cluster",
	}
	if kind != "" {
		options.Addrs = nil
		for _, host := range hosts {
			h := url.URL{Host: host}
			options.Addrs = append(options.Addrs, net.JoinHostPort(cmp.Or(h.Hostname(), "localhost"), cmp.Or(h.Port(), port)))
		}
	}
	return options, safe.String(), nil
}
