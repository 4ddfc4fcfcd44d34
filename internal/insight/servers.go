package insight

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority/internal/insight/census"
	"github.com/redis/go-redis/v9"
)

// master is a server that holds keys, with what it says about itself.
type master struct {
	name   string // in a cluster only
	client *redis.Client
	info   map[string]string
	infoOK bool // this user may call INFO
}

// nodes returns the masters, in the order of their names.
func (e *examination) nodes(ctx context.Context) ([]master, error) {
	clients, err := census.Masters(ctx, e.Client)
	if err != nil {
		return nil, err
	}
	var nodes []master
	for _, client := range clients {
		node := master{client: client, info: make(map[string]string)}
		if client != e.Client {
			node.name = client.Options().Addr
		}
		info, err := client.Info(ctx).Result()
		if err != nil && !redis.IsPermissionError(err) {
			return nil, err
		}
		node.infoOK = err == nil
		for line := range strings.Lines(info) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				node.info[name] = value
			}
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b master) int { return strings.Compare(a.name, b.name) })
	return nodes, nil
}

// release is a version's first numbers.
var release = regexp.MustCompile(`^(\d+)\.(\d+)`)

func (e *examination) checkVersion(node master) {
	if !node.infoOK {
		e.add(node, "version", StatusWarning, "unknown: this user may not call INFO", "for a worker's user that is right; an operator's needs +info")
		return
	}
	product, version := "Redis", node.info["redis_version"]
	oldest := []int{6, 2}
	if valkey, ok := node.info["valkey_version"]; ok {
		product, version, oldest = "Valkey", valkey, []int{7, 2}
	}
	found := product + " " + version
	numbers := release.FindStringSubmatch(version)
	if numbers == nil {
		e.add(node, "version", StatusWarning, found, "the module is made for Redis 6.2 to 8 and Valkey 7.2 to 9")
		return
	}
	major, _ := strconv.Atoi(numbers[1])
	minor, _ := strconv.Atoi(numbers[2])
	newest := map[string]int{"Redis": 8, "Valkey": 9}[product]
	switch {
	case slices.Compare([]int{major, minor}, oldest) < 0:
		e.add(node, "version", StatusFailed, found, fmt.Sprintf("upgrade to %s %d.%d or later", product, oldest[0], oldest[1]))
	case major > newest:
		e.add(node, "version", StatusWarning, found, fmt.Sprintf("newer than the %s %d that the module is made for: run its tests on it", product, newest))
	default:
		e.add(node, "version", StatusOK, found, "")
	}
}

func (e *examination) checkMemory(node master) {
	policy, ok := node.info["maxmemory_policy"]
	if !ok {
		e.add(node, "memory", StatusWarning, "unknown: this user may not call INFO", "for a worker's user that is right; an operator's needs +info")
		return
	}
	limit, _ := strconv.ParseInt(node.info["maxmemory"], 10, 64)
	used, _ := strconv.ParseInt(node.info["used_memory"], 10, 64)
	found := fmt.Sprintf("no limit, %s MB used, maxmemory-policy %s", Group(used>>20), policy)
	if limit > 0 {
		found = fmt.Sprintf("%s of %s MB used, maxmemory-policy %s", Group(used>>20), Group(limit>>20), policy)
	}
	switch {
	case e.full[node.name], policy == "noeviction" && limit > 0 && used >= limit:
		e.add(node, "memory", StatusFailed, "full: "+found, "no document is counted: raise maxmemory, by CONFIG SET and in redis.conf, or remove what else fills it")
	case policy != "noeviction":
		e.add(node, "memory", StatusWarning, found, "when memory is full it evicts counts, and their customers start afresh: set noeviction")
	case limit > 0 && used > limit/10*9:
		e.add(node, "memory", StatusWarning, found, "when it is full, no document is counted: raise maxmemory")
	default:
		e.add(node, "memory", StatusOK, found, "")
	}
}

// recent is how long a server's start is reported: it may explain lost data.
const recent = 15 * time.Minute

// checkStart reports a server that started a few minutes ago.
func (e *examination) checkStart(node master) {
	seconds, err := strconv.ParseInt(node.info["uptime_in_seconds"], 10, 64)
	if err != nil {
		return // checkMemory has said that INFO is not allowed
	}
	up := time.Duration(seconds) * time.Second
	found, status, remedy := "up for "+Span(up), StatusOK, ""
	if up < recent {
		status, remedy = StatusWarning, "if nobody meant that, see its log; if data is lost, priorityctl control import brings rules and overrides back"
	}
	e.add(node, "start", status, found, remedy)
}

// checkPersistence reports a server without persistence.
func (e *examination) checkPersistence(ctx context.Context, node master) {
	appends, ok := node.info["aof_enabled"]
	if !ok {
		return
	}
	const lost = "a restart empties it, and its replicas too: every count, rule and override is gone. Set appendonly yes, or keep what priorityctl control export prints"
	switch written, err := strconv.ParseInt(node.info["rdb_last_save_time"], 10, 64); {
	case appends == "1" && node.info["aof_last_write_status"] == "err":
		e.add(node, "persistence", StatusWarning, "the append-only file cannot be written", "see its log: is the disk full?")
	case appends == "1":
		e.add(node, "persistence", StatusOK, "append-only file", "")
	case node.info["rdb_last_bgsave_status"] == "err":
		e.add(node, "persistence", StatusWarning, "the last snapshot could not be written", "see its log: is the disk full?")
	case e.snapshots(ctx, node) == "":
		e.add(node, "persistence", StatusWarning, "none: neither snapshots nor an append-only file", lost)
	case err == nil && written > 0:
		e.add(node, "persistence", StatusOK, "snapshots, the last or the start at "+Moment(time.Unix(written, 0)), "")
	}
}

// snapshots returns when a server writes snapshots, empty if never. Without the right to
// ask, it assumes that the server writes snapshots.
func (e *examination) snapshots(ctx context.Context, node master) string {
	config, err := node.client.ConfigGet(ctx, "save").Result()
	if err != nil {
		return "unknown"
	}
	return config["save"]
}

func (e *examination) checkReplication(node master) {
	role, ok := node.info["role"]
	if !ok {
		return // checkMemory has said that INFO is not allowed
	}
	if role != "master" {
		e.add(node, "replication", StatusFailed, "this is a replica of "+node.info["master_host"]+":"+node.info["master_port"],
			"name the master: a replica counts nothing")
		return
	}
	replicas, _ := strconv.Atoi(node.info["connected_slaves"])
	written, _ := strconv.ParseInt(node.info["master_repl_offset"], 10, 64)
	var behind int64
	offline := 0
	for i := range replicas {
		// ip=…,port=…,state=online,offset=…,lag=…
		fields := make(map[string]string)
		for field := range strings.SplitSeq(node.info["slave"+strconv.Itoa(i)], ",") {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		if fields["state"] != "online" {
			offline++
		}
		offset, _ := strconv.ParseInt(fields["offset"], 10, 64)
		behind = max(behind, written-offset)
	}
	found := Plural(int64(replicas), "replica")
	switch {
	case replicas == 0:
		e.add(node, "replication", StatusOK, "a master without replicas", "")
	case offline > 0:
		e.add(node, "replication", StatusWarning, fmt.Sprintf("%s, %d not in step", found, offline), "after a failover to one of those, counts would go back")
	case behind > 1<<20:
		e.add(node, "replication", StatusWarning, fmt.Sprintf("%s, %s kB behind", found, Group(behind>>10)), "after a failover now, that many writes of counts would be lost")
	default:
		e.add(node, "replication", StatusOK, fmt.Sprintf("%s, at most %s bytes behind", found, Group(behind)), "")
	}
}
