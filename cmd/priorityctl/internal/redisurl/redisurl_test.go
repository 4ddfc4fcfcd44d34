package redisurl

import (
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/insight"
)

func TestEveryFormOfURLIsRead(t *testing.T) {
	for _, test := range []struct {
		url, shown     string
		kind           insight.Kind
		tls            bool
		user, password string
		addresses      []string
	}{
		{"redis://host", "redis://host:6379", insight.SingleServer, false, "", "", []string{"host:6379"}},
		{"redis://:hush@host:1/3", "redis://host:1/3", insight.SingleServer, false, "", "hush", []string{"host:1"}},
		{"redis://ann:h%40%2Fsh@[::1]:1", "redis://ann@[::1]:1", insight.SingleServer, false, "ann", "h@/sh", []string{"[::1]:1"}},
		{"rediss://ann:hush@host?read_timeout=5s", "rediss://ann@host:6379", insight.SingleServer, true, "ann", "hush", []string{"host:6379"}},
		{"unix:///tmp/redis.sock", "unix:///tmp/redis.sock", insight.SingleServer, false, "", "", []string{"/tmp/redis.sock"}},
		{"redis+cluster://a:1,b:2,c", "redis+cluster://a:1,b:2,c:6379", insight.Cluster, false, "", "", []string{"a:1", "b:2", "c:6379"}},
		{"rediss+cluster://ann:hush@a:1", "rediss+cluster://ann@a:1", insight.Cluster, true, "ann", "hush", []string{"a:1"}},
		{"redis+sentinel://ann:hush@a,b:2/counts/3", "redis+sentinel://ann@a:26379,b:2/counts/3", insight.Sentinel, false, "ann", "hush", []string{"a:26379", "b:2"}},
		{"rediss+sentinel://a/counts", "rediss+sentinel://a:26379/counts", insight.Sentinel, true, "", "", []string{"a:26379"}},
	} {
		target, err := Parse(test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		user, password := target.login()
		if target.String() != test.shown || target.Kind != test.kind || target.TLS != test.tls || user != test.user || password != test.password {
			t.Errorf("%s: got %s, %s, TLS %v, user %q, password %q", test.url, target, target.Kind, target.TLS, user, password)
		}
		if got := target.addresses(); !slices.Equal(got, test.addresses) {
			t.Errorf("%s: addresses %q", test.url, got)
		}
		if (target.TLSConfig() != nil) != test.tls {
			t.Errorf("%s: TLS %v", test.url, target.TLSConfig())
		}
		if test.password != "" && !slices.Contains(target.Secrets(), test.password) {
			t.Errorf("%s: the password is not among the secrets", test.url)
		}
		if err := target.Client(0).Close(); err != nil {
			t.Error(err)
		}
	}
}

func (t *Target) addresses() []string {
	switch {
	case t.single != nil:
		return []string{t.single.Addr}
	case t.cluster != nil:
		return t.cluster.Addrs
	}
	return t.failover.SentinelAddrs
}

func TestSentinelsHaveTheirOwnLogin(t *testing.T) {
	target, err := Parse("redis+sentinel://ann:hush@a/counts")
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Use(Login{SentinelUser: "watch", SentinelPassword: "quiet"}); err != nil {
		t.Fatal(err)
	}
	f := target.failover
	if f.Username != "ann" || f.Password != "hush" || f.SentinelUsername != "watch" || f.SentinelPassword != "quiet" || f.MasterName != "counts" {
		t.Errorf("got %+v", f)
	}
	if secrets := target.Secrets(); len(secrets) != 2 {
		t.Errorf("secrets: %q", secrets)
	}
}

func TestAUserNeedsAPassword(t *testing.T) {
	target, err := Parse("redis://host")
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Use(Login{User: "ann"}); err == nil || !strings.Contains(err.Error(), "ann") {
		t.Errorf("got %v", err)
	}
	if err := target.Use(Login{User: "ann", Password: "hush"}); err != nil {
		t.Error(err)
	}
}

// An unset variable in a URL must not lead to a Redis on this machine.
func TestAURLNamesItsHosts(t *testing.T) {
	for _, text := range []string{
		"redis://", "redis://:6379", "redis:///3", "rediss://ann:hush@:6379", "redis+cluster://a:1,,b:2", "redis+sentinel://:26379/counts",
	} {
		if target, err := Parse(text); err == nil || !strings.Contains(err.Error(), "names no host") {
			t.Errorf("%s: %v, %v", text, target, err)
		}
	}
}

// TestErrorsHideThePassword takes what people mistype: parts of a password end
// up where a host, a port, a path or a query should be.
func TestErrorsHideThePassword(t *testing.T) {
	for _, text := range []string{
		"redis:hush@host", "redes://ann:hush@host", "redis+ring://ann:hush@host",
		"redis://ann:hush/hush@host", "redis://ann:12/hush@host", "redis://ann:x?hush@host", "redis://ann:#hush@host",
		"redis://ann:hush%zz@host", "redis://ann:hu sh@host:hush", "redis://ann:hush@host:port", "redis://ann:hush@host/database",
		"redis://ann:hush@a,b", "redis+cluster://ann:hush@a:x,b", "redis+cluster://ann:hush@a/3",
		"redis+sentinel://ann:hush@a", "redis+sentinel://ann:hush@a/counts/x", "redis://ann:hush@host?nonsense=1",
		"redis://hush%@host", "unix://ann:hush@", "redis://host?db=hush@x",
	} {
		target, err := Parse(text)
		if err == nil {
			t.Errorf("%s is taken as %s", text, target)
		} else if strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAURLIsWrittenForAnotherKindOfRedis(t *testing.T) {
	for text, want := range map[string][3]string{
		"redis://ann:hush@a:1/3":          {"redis://ann@a:1/3", "redis+cluster://ann@a:1", "redis+sentinel://ann@a:1/the%20master/3"},
		"rediss+cluster://a,b:2":          {"rediss://a:6379", "rediss+cluster://a:6379,b:2", "rediss+sentinel://a:6379,b:2/the%20master"},
		"redis+sentinel://a,b:2/counts/3": {"redis://a:26379/3", "redis+cluster://a:26379,b:2", "redis+sentinel://a:26379,b:2/the%20master/3"},
		"unix://ann:hush@/tmp/redis.sock": {"redis://ann@host:port", "redis+cluster://ann@host:port", "redis+sentinel://ann@host:port/the%20master"},
	} {
		target, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := [3]string{target.As(insight.SingleServer, ""), target.As(insight.Cluster, ""), target.As(insight.Sentinel, "the master")}
		if got != want {
			t.Errorf("%s is written %q, not %q", text, got, want)
		}
	}
}
