package main

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/redisurl"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// suggestion is the URL by which a message says to ask.
var suggestion = regexp.MustCompile(`\b(redis(?:\+\w+)?://\S*)(?: \(it knows .*\))?\n$`)

// Every kind of Redis is asked by the URL of every kind. The right ones are answered
// for all customers; the others are refused with a URL, and by that it works.
func TestEveryKindOfRedisAnswersForAllCustomersOrSaysHowToAsk(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t)
	watched := redistest.Start(t)
	redistest.StartReplica(t, watched)
	sentinel := redistest.StartSentinel(t, watched)
	cluster := redistest.StartCluster(t, 3)
	clusterReplica := cluster.AddReplica(cluster.Masters[1])
	hosts := strings.Join(cluster.Addrs(), ",")

	for _, server := range []struct {
		name   string
		client redis.UniversalClient
		right  []string
		wrong  []string
	}{
		{"single server", single.Client(), []string{"redis://" + single.Addr},
			[]string{"redis+cluster://" + single.Addr, "redis+sentinel://" + single.Addr + "/counts"}},
		{"sentinel", watched.Client(), []string{"redis+sentinel://" + sentinel + "/" + redistest.MasterName, "redis://" + watched.Addr},
			[]string{"redis://" + sentinel, "redis+cluster://" + sentinel, "redis+sentinel://" + sentinel + "/other"}},
		{"cluster", cluster.Client(), []string{"redis+cluster://" + hosts, "redis+cluster://" + cluster.Addrs()[2], "redis+cluster://" + clusterReplica.Addr},
			[]string{"redis://" + cluster.Addrs()[0], "redis://" + clusterReplica.Addr, "redis+sentinel://" + cluster.Addrs()[1] + "/counts", "redis://" + cluster.Addrs()[0] + "?protocol=2"}},
	} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			documents := make(map[string]int)
			for i := range 30 {
				documents[fmt.Sprint("customer-", i)] = 5
			}
			fill := func() {
				count(t, server.client, documents)
				for _, id := range []string{"a", "b"} { // each names half of the customers
					r := fleet.Report{ID: id, Name: id, Levels: 9, Overrides: true}
					for i := range 15 {
						r.Busiest = append(r.Busiest, fleet.Busy{Customer: fmt.Sprint("customer-", 2*i+int(id[0]-'a')), Documents: 5, Rule: priority.ByCount, Level: 2})
					}
					reported(t, server.client, r)
				}
			}
			for _, url := range server.right {
				fill()
				answersForAll(t, url, len(documents))
			}
			for _, url := range server.wrong {
				fill()
				o := operatorOn(t, "-redis", url, "-timeout", "5s")
				var instead string
				for _, call := range [][]string{
					{"list"}, {"top"}, {"get", "customer-1"}, {"ping"}, {"serve", "-listen", "127.0.0.1:0"}, {"log"},
					{"override", "list"}, {"policy", "compare", "default", "default", "-live"}, {"reset", "-yes", "customer-1"},
				} {
					status, stdout, stderr := o.ask(call[0], call[1:]...)
					found := suggestion.FindStringSubmatch(stderr)
					if status != exitUsage || stdout != "" || found == nil {
						t.Fatalf("%s, %q: exit status %d, stdout %q, stderr %q", url, call, status, stdout, stderr)
					}
					instead = found[1]
				}
				answersForAll(t, instead, len(documents))
			}
		})
	}
}

// answersForAll asks everything of a Redis that has so many customers.
func answersForAll(t *testing.T, url string, customers int) {
	t.Helper()
	o := operatorOn(t, "-redis", url, "-timeout", "5s")
	if got := objects(t, o.told("list", "-json")); len(got) != customers {
		t.Errorf("%s lists %d customers, not %d", url, len(got), customers)
	}
	if text := o.told("top"); strings.Count(text, "customer-") != customers || strings.Count(text, " -4 ") != customers || !strings.Contains(text, "\n2 workers: ") {
		t.Errorf("%s: not %d customers in\n%s", url, customers, text)
	}
	var all []string
	for i := range customers {
		all = append(all, fmt.Sprint("customer-", i))
	}
	if got := objects(t, o.told("get", append(all, "-json")...)); len(got) != customers || got[customers-1]["count"] != got[0]["count"] || got[0]["count"].(float64) >= 0 {
		t.Errorf("%s gets %v", url, got)
	}
	if got := objects(t, o.told("reset", append(all, "-json", "-yes")...)); len(got) != customers {
		t.Errorf("%s resets %v", url, got)
	}
	if got := o.told("list", "-json"); got != "" {
		t.Errorf("%s: reset leaves %s", url, got)
	}
}

// A sentinel of several masters names them.
func TestASentinelNamesItsMasters(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t), redistest.Start(t)
	redistest.StartReplica(t, first)
	sentinel := redistest.StartSentinel(t, first)
	host, port, _ := strings.Cut(second.Addr, ":")
	client := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
	defer client.Close()
	if err := client.Monitor(t.Context(), "another", host, port, "1").Err(); err != nil {
		t.Fatal(err)
	}
	holds(t, operatorOn(t, "-redis", "redis+sentinel://"+sentinel+"/"+redistest.MasterName).told("ping"), "sentinel, user default")
	for _, url := range []string{"redis://" + sentinel, "redis+sentinel://" + sentinel + "/other"} {
		operatorOn(t, "-redis", url).refused(2, "redis+sentinel://"+sentinel+"/another (it knows another, counts)", "list")
	}
}

// What reads may go to a replica, and says so; what changes something may not.
func TestAReplicaIsReadAndNeverChanged(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master, "--replica-read-only", "no") // a write would be lost
	count(t, master.Client(), map[string]int{"acme": 30})
	reported(t, master.Client(), counting())
	redistest.Await(t, "the count and the report reach the replica", func() bool { return replica.Client().DBSize(t.Context()).Val() == 3 })
	o := operatorOn(t, "-redis", "redis://"+replica.Addr)
	for _, call := range [][]string{{"get", "acme"}, {"list"}, {"top"}} {
		status, stdout, stderr := o.ask(call[0], call[1:]...)
		if status != 0 || !strings.Contains(stdout, "acme") || !strings.Contains(stderr, "is a replica of "+master.Addr+": it may be behind") {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", call, status, stdout, stderr)
		}
	}
	for _, call := range [][]string{
		{"reset", "-yes", "acme"}, {"forget", "-yes", "acme"}, {"override", "set", "acme", "-level", "1", "-for", "1h"}, {"override", "end", "acme"},
		{"policy", "apply", "default"}, {"policy", "rollback", "1"}, {"policy", "withdraw"},
	} {
		status, stdout, stderr := o.ask(call[0], append(call[1:], "-why", "x")...)
		if status != 2 || stdout != "" || !strings.Contains(stderr, "is a replica of "+master.Addr+", where nothing can be changed: name the master") {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", call, status, stdout, stderr)
		}
	}
	if n := replica.Client().DBSize(t.Context()).Val(); n != 3 {
		t.Errorf("the replica has %d keys", n)
	}
}

// Rights that suffice for get suffice to find out what kind of server it is.
func TestEveryUserIsToldHowToAsk(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, master := range cluster.Masters {
		if err := master.Client().Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">"+secret, "~priority:*", "-@all", "+get").Err(); err != nil {
			t.Fatal(err)
		}
	}
	o := operatorOn(t, "-redis", "redis://reader:"+secret+"@"+cluster.Addrs()[0])
	o.refused(2, "ask the whole cluster by redis+cluster://reader@"+cluster.Addrs()[0], "get", "acme")
}

// Wherever HELLO is not known, as before Redis 6 and behind some proxies, INFO tells.
func TestAServerWithoutHelloIsRecognizedByInfo(t *testing.T) {
	t.Parallel()
	withoutHello := []string{"--rename-command", "HELLO", ""}
	cluster := redistest.StartCluster(t, 3, withoutHello...)
	operatorOn(t, "-redis", "redis://"+cluster.Addrs()[0]).refused(2, "ask the whole cluster by redis+cluster://", "list")
	master := redistest.Start(t, withoutHello...)
	replica := redistest.StartReplica(t, master, withoutHello...)
	operatorOn(t, "-redis", "redis://"+replica.Addr).refused(2, "is a replica of "+master.Addr, "reset", "-yes", "acme")
}

// A cluster's node knows one database, so the one in the URL must not hide what it is.
func TestADatabaseDoesNotHideWhatAServerIs(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	operatorOn(t, "-redis", "redis://"+cluster.Addrs()[0]+"/3").refused(2, "ask the whole cluster by redis+cluster://", "list")
	single := redistest.Start(t)
	operatorOn(t, "-redis", "redis+sentinel://"+single.Addr+"/counts/3").refused(2, "ask it by redis://"+single.Addr+"/3", "list")
}

// However many servers a URL names that take a connection and say nothing, they are
// asked at the same time.
func TestServersThatSayNothingAreAskedTogether(t *testing.T) {
	t.Parallel()
	var hosts []string
	var asked atomic.Int32
	for range 6 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		hosts = append(hosts, listener.Addr().String())
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				asked.Add(1)
				t.Cleanup(func() { _ = conn.Close() })
			}
		}()
	}
	target, err := redisurl.Parse("redis+cluster://" + strings.Join(hosts, ","))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- misnamed(ctx, target, time.Minute) }()
	redistest.Await(t, "all are asked", func() bool { return asked.Load() >= 6 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
