package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/keys"
)

// Master is a server that holds keys, with what it says about itself.
type Master struct {
	Name   string // host:port
	Away   error  // why it cannot be asked, though another one can; nil: it can
	client *redis.Client
	info   map[string]string // empty: this user may not call INFO
}

// AskMasters asks all masters of a cluster, or the one server, by their names. An error means
// that none answers, or wraps [priority.ErrInvalid] if the one server does not have all customers.
func (i *Inspector) AskMasters(ctx context.Context) ([]Master, error) {
	var mu sync.Mutex
	var all []Master
	ask := func(ctx context.Context, client *redis.Client) error {
		m := Master{Name: client.Options().Addr, client: client, info: make(map[string]string)}
		if b, ok := client.Options().Limiter.(*breaker); ok {
			b.away.Store(nil)
		}
		info, err := client.Info(ctx).Result()
		if redis.IsPermissionError(err) || redis.HasErrorPrefix(err, "unknown command") {
			err = nil
		}
		if err != nil {
			m.Away = Away{err, m.Name}
		}
		for line := range strings.Lines(info) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				m.info[name] = value
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, m)
		return err
	}
	switch client := i.Client.(type) {
	case *redis.ClusterClient:
		err := client.ForEachMaster(ctx, ask)
		if slices.ContainsFunc(all, func(m Master) bool { return m.Away == nil }) {
			err = nil
		}
		slices.SortFunc(all, func(a, b Master) int { return strings.Compare(a.Name, b.Name) })
		return all, err
	case *redis.Client:
		if err := ask(ctx, client); err != nil {
			return nil, err
		}
		return all, i.checkWhole(ctx, all[0])
	}
	return nil, fmt.Errorf("a %T cannot be looked at", i.Client)
}

// checkWhole refuses a node of a cluster, which would answer for its share of the customers as
// if there were no others, and a sentinel. A server that does not say what it is, is asked for
// keys all over the slots: a node has not all of them.
func (i *Inspector) checkWhole(ctx context.Context, m Master) error {
	switch cmp.Or(m.info["redis_mode"], m.info["server_mode"]) { // the latter is Valkey's since 8
	case "":
		_, err := m.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for n := range 256 {
				pipe.PTTL(ctx, keys.Prefix(i.Prefix).Of(fmt.Sprint(n), keys.Count))
			}
			return nil
		})
		if _, moved := redis.IsMovedError(err); moved {
			return i.Hidden(err)
		}
	case "cluster":
		return i.errNode()
	case "sentinel":
		_, host, _ := strings.Cut(i.Address, "://")
		return otherWords{priority.ErrInvalid, fmt.Sprintf("%s is a sentinel, which has no customers: name its master, redis+sentinel://%s/MASTER", i.Address, host)}
	}
	return nil
}

func (i *Inspector) errNode() error {
	_, host, _ := strings.Cut(i.Address, "://")
	return otherWords{priority.ErrInvalid, fmt.Sprintf("%s is a node of a cluster, and has only its share of the customers: name the whole cluster, redis+cluster://%s", i.Address, host)}
}

func (m Master) number(field string) int64 {
	n, _ := strconv.ParseInt(m.info[field], 10, 64)
	return n
}

// full reports whether the server refuses writes for want of memory.
func (m Master) full() bool {
	limit := m.number("maxmemory")
	return limit > 0 && m.number("used_memory") >= limit-limit/1000 && m.info["maxmemory_policy"] == "noeviction"
}

// Full reports whether a server refuses writes for want of memory, so that reports cannot be
// written.
func (s *Snapshot) Full() bool { return slices.ContainsFunc(s.Masters, Master.full) }

// product returns the server's name and version.
func (m Master) product() (product, version string) {
	if valkey, ok := m.info["valkey_version"]; ok {
		return "Valkey", valkey
	}
	return "Redis", m.info["redis_version"]
}

func (m Master) memory() string {
	used, limit := m.number("used_memory"), m.number("maxmemory")
	if limit == 0 {
		return fmt.Sprintf("%s MB used, no limit, %s", Group(used>>20), m.info["maxmemory_policy"])
	}
	return fmt.Sprintf("%s of %s MB used, %s", Group(used>>20), Group(limit>>20), m.info["maxmemory_policy"])
}

func (m Master) up() time.Duration { return time.Duration(m.number("uptime_in_seconds")) * time.Second }

// checks says what the server does that the module needs.
func (m Master) checks(ctx context.Context) []Check {
	switch {
	case m.Away != nil:
		return []Check{finding("redis.away", "why", OneLine(m.Away))}
	case len(m.info) == 0:
		return []Check{finding("server.hidden", "master", m.Name)}
	}
	checks := []Check{m.version(), m.memoryCheck(), m.persistence(ctx), m.replication()}
	if seconds, ok := m.setting(ctx, "timeout"); ok && seconds != "0" {
		checks = append(checks, finding("timeout", "seconds", seconds))
	}
	return checks
}

// setting returns a setting; false: there is none, or this user may not ask for it.
func (m Master) setting(ctx context.Context, name string) (value string, ok bool) {
	value, ok = m.client.ConfigGet(ctx, name).Val()[name]
	return value, ok
}

func (m Master) version() Check {
	product, version := m.product()
	oldest := []int{6, 2}
	if product == "Valkey" {
		oldest = []int{7, 2}
	}
	kind := "version"
	var numbers [2]int
	fmt.Sscanf(version, "%d.%d", &numbers[0], &numbers[1])
	if slices.Compare(numbers[:], oldest) < 0 {
		kind = "version.old"
	}
	return finding(kind, "master", m.Name, "product", product+" "+version, "up", Span(m.up()), "oldest", fmt.Sprintf("%s %d.%d", product, oldest[0], oldest[1]))
}

func (m Master) memoryCheck() Check {
	kind, used, limit := "memory", m.number("used_memory"), m.number("maxmemory")
	switch {
	case m.full():
		kind = "memory.full"
	case m.info["maxmemory_policy"] != "noeviction":
		kind = "memory.evicts"
	case limit > 0 && used > limit/10*9:
		kind = "memory.nearly"
	}
	return finding(kind, "memory", m.memory())
}

func (m Master) persistence(ctx context.Context) Check {
	kind := "snapshots"
	save, ok := m.setting(ctx, "save")
	switch {
	case m.info["aof_enabled"] == "1" && m.info["aof_last_write_status"] == "err":
		kind = "persistence.failed"
	case m.info["aof_enabled"] == "1":
		kind = "persistence"
	case m.info["rdb_last_bgsave_status"] == "err":
		kind = "snapshots.failed"
	case ok && save == "":
		kind = "snapshots.none"
	}
	return finding(kind, "at", Moment(time.Unix(m.number("rdb_last_save_time"), 0)))
}

func (m Master) replication() Check {
	if replica := m.Replica(); replica != "" {
		return finding("replication.replica", "replica", replica)
	}
	kind, offline, replicas := "replication", "", m.number("connected_slaves")
	for i := range replicas {
		// ip=…,port=…,state=online,offset=…,lag=…
		if replica := m.info[fmt.Sprint("slave", i)]; !strings.Contains(replica, "state=online") {
			kind, offline = "replication.offline", replica
		}
	}
	return finding(kind, "replicas", Plural(replicas, "replica"), "replica", offline)
}

// Replica says which replica the server is, such as "a replica of host:6379"; empty: it is a
// master, or that is not known.
func (m Master) Replica() string {
	if m.info["role"] != "slave" {
		return ""
	}
	return "a replica of " + m.info["master_host"] + ":" + m.info["master_port"]
}
