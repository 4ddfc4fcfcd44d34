package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/redisurl"
	"github.com/docpriority/priority/cmd/priorityctl/internal/report"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

const pingLong = `Ping checks whether this Redis does what the module needs: version, latency,
rights, scripts, memory and replication, on every master of a cluster. For the
rights it counts a document of a customer of its own, and forgets it again.

Each check is ok, a warning, or failed, with what to do. The exit status is 1 if a
check failed.`

func newPing() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var asJSON bool
	count := 0
	command := &cobra.Command{
		Use:               "ping",
		Short:             "Checks whether Redis does what the module needs",
		Long:              pingLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error {
			if count < 1 || count > 100_000 {
				return usageError("-count %d is not from 1 to 100000", count)
			}
			return nil
		},
	}
	command.RunE = connected(&connect, &policies, func(command *cobra.Command, c *connection, _ []string) error {
		p := ping{connection: c, count: count}
		if err := p.check(command.Context()); err != nil {
			return c.broken(err)
		}
		if err := p.print(command.OutOrStdout(), asJSON); err != nil {
			return err
		}
		if p.has(checkFailed) {
			return statusError{exitFailed, nil}
		}
		return nil
	})
	command.Flags().IntVar(&count, "count", 20, "how many round trips to measure")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	connect.register(command)
	policies.register(command)
	return command
}

// The outcomes of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning"
	checkFailed  = "failed"
)

// check is one line of what ping tells.
type check struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Node   string `json:"node,omitempty"` // of a cluster
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

// latency is of many round trips.
type latency struct {
	MedianUS int64 `json:"median_us"`
	MaxUS    int64 `json:"max_us"`
}

func (l latency) String() string {
	return fmt.Sprintf("median %s, at most %s", span(time.Duration(l.MedianUS)*time.Microsecond), span(time.Duration(l.MaxUS)*time.Microsecond))
}

// ping goes through the checks.
type ping struct {
	*connection
	count int

	checks      []check
	pings, peek latency
	own         string // the customer that rights are tried with
}

// pinged is a master; it has a name in a cluster only.
type pinged struct {
	name   string
	client *redis.Client
	info   map[string]string
	infoOK bool
}

func (p *ping) check(ctx context.Context) error {
	nodes, err := p.nodes(ctx)
	if err != nil {
		return err
	}
	p.own = "priorityctl ping " + rand.Text()
	if err := p.checkConnection(ctx, len(nodes)); err != nil {
		return err
	}
	for _, node := range nodes {
		p.checkVersion(node)
	}
	if err := p.checkLatency(ctx); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := p.checkRights(ctx, node); err != nil {
			return err
		}
	}
	for _, node := range nodes {
		p.checkMemory(node)
		p.checkReplication(node)
	}
	return nil
}

func (p *ping) add(node pinged, name, status, found, remedy string) {
	p.checks = append(p.checks, check{name, status, node.name, found, remedy})
}

func (p *ping) has(status string) bool {
	return slices.ContainsFunc(p.checks, func(c check) bool { return c.Status == status })
}

// nodes returns the masters with what they tell of themselves.
func (p *ping) nodes(ctx context.Context) ([]pinged, error) {
	var nodes []pinged
	switch client := p.client.(type) {
	case *redis.ClusterClient:
		masters := make(chan *redis.Client, 10_000)
		err := client.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			masters <- master
			return nil
		})
		if err != nil {
			return nil, err
		}
		close(masters)
		for master := range masters {
			nodes = append(nodes, pinged{name: master.Options().Addr, client: master})
		}
		slices.SortFunc(nodes, func(a, b pinged) int { return strings.Compare(a.name, b.name) })
	case *redis.Client:
		nodes = []pinged{{client: client}}
	}
	for i := range nodes {
		info, err := nodes[i].client.Info(ctx).Result()
		if err != nil && !redis.IsPermissionError(err) {
			return nil, err
		}
		nodes[i].info, nodes[i].infoOK = make(map[string]string), err == nil
		for line := range strings.Lines(info) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				nodes[i].info[name] = value
			}
		}
	}
	return nodes, nil
}

func (p *ping) checkConnection(ctx context.Context, masters int) error {
	found := p.target.String()
	if p.target.Kind != redisurl.Single {
		found += ", " + string(p.target.Kind)
	}
	if p.target.Kind == redisurl.Cluster {
		found += " of " + plural(int64(masters), "master")
	}
	who, err := p.client.Do(ctx, "ACL", "WHOAMI").Text()
	switch {
	case err == nil:
		found += ", user " + shown(who)
	case lost(err):
		return err
	}
	p.add(pinged{}, "connection", checkOK, found, "")
	return nil
}

// release is a version's first numbers.
var release = regexp.MustCompile(`^(\d+)\.(\d+)`)

func (p *ping) checkVersion(node pinged) {
	if !node.infoOK {
		p.add(node, "version", checkWarning, "unknown: this user may not call INFO", "grant it, for ping: ACL SETUSER … +info")
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
		p.add(node, "version", checkWarning, found, "the module is made for Redis 6.2 to 8 and Valkey 7.2 to 9")
		return
	}
	major, _ := strconv.Atoi(numbers[1])
	minor, _ := strconv.Atoi(numbers[2])
	newest := map[string]int{"Redis": 8, "Valkey": 9}[product]
	switch {
	case slices.Compare([]int{major, minor}, oldest) < 0:
		p.add(node, "version", checkFailed, found, fmt.Sprintf("upgrade to %s %d.%d or later", product, oldest[0], oldest[1]))
	case major > newest:
		p.add(node, "version", checkWarning, found, fmt.Sprintf("newer than the %s %d that the module is made for: run its tests on it", product, newest))
	default:
		p.add(node, "version", checkOK, found, "")
	}
}

func (p *ping) checkLatency(ctx context.Context) error {
	var err error
	if p.pings, err = p.measure(ctx, func() error { return p.client.Ping(ctx).Err() }); err != nil && !redis.IsPermissionError(err) {
		return err
	}
	if err == nil {
		p.add(pinged{}, "ping", checkOK, p.pings.String(), "")
	}
	p.peek, err = p.measure(ctx, func() error {
		_, err := p.store.Peek(ctx, p.own)
		return err
	})
	if lost(err) {
		return err
	}
	switch slow := 50 * time.Millisecond; {
	case err != nil: // checkRights tells
	case time.Duration(p.peek.MedianUS)*time.Microsecond > slow:
		p.add(pinged{}, "peek", checkWarning, p.peek.String(), "a decision takes as long; RedisOptions.Timeout is 250ms by default: move Redis nearer, or wrap the store with package fallback")
	default:
		p.add(pinged{}, "peek", checkOK, p.peek.String(), "")
	}
	return nil
}

// measure times calls, but not the first, which may connect or load a script.
func (p *ping) measure(ctx context.Context, call func() error) (latency, error) {
	took := make([]time.Duration, 0, p.count)
	for i := range p.count + 1 {
		if err := ctx.Err(); err != nil {
			return latency{}, err
		}
		start := time.Now()
		if err := call(); err != nil {
			return latency{}, err
		}
		if i > 0 {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return latency{took[len(took)/2].Microseconds(), took[len(took)-1].Microseconds()}, nil
}

// The checks of rights, and the rights that they need.
const (
	checkNext    = "next"
	nextRights   = "+evalsha +eval +exists +get +set +decr +decrby +incrby +pexpire +pttl +unlink"
	checkSubmit  = "submit"
	submitRights = "+zadd +zcard +zcount +zmscore +zrange +zrangebyscore +zrem +zscore +time"
)

// checkRights does what workers do, for a customer whose keys the node holds.
func (p *ping) checkRights(ctx context.Context, node pinged) error {
	customer, err := p.customerOn(ctx, node)
	if err != nil {
		return err
	}
	for _, use := range []struct {
		check, remedy string
		steps         []func() error
	}{
		{checkNext, "grant " + nextRights + " on the keys ~" + p.prefix + ":*", []func() error{
			func() error { _, err := p.store.Next(ctx, customer); return err },
			func() error { _, err := p.store.NextN(ctx, customer, 2); return err },
			func() error { return p.store.Reset(ctx, customer) },
		}},
		{checkSubmit, "who calls Submit, Done or Peek, as get does, needs " + submitRights + " too, on the same keys", []func() error{
			func() error { _, err := p.store.Submit(ctx, customer, "document"); return err },
			func() error { _, err := p.store.Peek(ctx, customer); return err },
			func() error { return p.store.Done(ctx, customer, "document", 0) },
			func() error { return p.store.Reset(ctx, customer) },
		}},
	} {
		var failed error
		for _, step := range use.steps {
			if failed = cmp.Or(failed, step()); failed != nil {
				break
			}
		}
		if lost(failed) {
			return failed
		}
		status, remedy := checkFailed, use.remedy
		var lacks []string
		if use.check == checkSubmit {
			status = checkWarning
			if lacks = p.lacks(ctx, customer); len(lacks) > 0 {
				remedy = "grant " + strings.Join(lacks, " ") + ": " + remedy
			}
		}
		switch {
		case failed == nil && len(lacks) == 0:
			p.add(node, use.check, checkOK, "the scripts load, and this user may run them", "")
			continue
		case failed == nil:
			p.add(node, use.check, status, "the scripts run now, but need more rights once a document is old", remedy)
		case forbidden(failed):
			p.add(node, use.check, status, oneLine(p.hidden(failed)), remedy)
		default:
			p.add(node, use.check, checkFailed, oneLine(p.hidden(failed)), "see what Redis says")
		}
		// What was written is removed by whatever right there is; else it expires.
		_ = p.store.Reset(ctx, customer)
		for _, key := range p.keys(customer) {
			_ = p.client.Unlink(ctx, key).Err()
		}
	}
	return nil
}

// keys are all of a customer.
func (p *ping) keys(customer string) []string {
	return []string{p.store.Key(customer), p.store.PendingKey(customer), p.store.UsageKey(customer)}
}

// lacks returns which rights to call Submit, Done and Peek a user has not, by using
// each: in a script, not every version of Redis says which one it refuses.
func (p *ping) lacks(ctx context.Context, customer string) (lacks []string) {
	refused := func(command ...any) bool { return redis.IsPermissionError(p.client.Do(ctx, command...).Err()) }
	if refused("get", p.store.Key(customer)) {
		return []string{"+get"}
	}
	for _, key := range p.keys(customer)[1:] {
		if refused("get", key) {
			_, end, _ := strings.Cut(key, "}")
			lacks = append(lacks, "~"+p.prefix+":*}"+end)
		}
	}
	if len(lacks) > 0 {
		return lacks // without a key, every command on it is refused
	}
	key := p.store.PendingKey(customer)
	for _, command := range [][]any{
		{"time"}, {"zadd", key, 1, "document"}, {"zcard", key}, {"zcount", key, 0, 1}, {"zmscore", key, "document"},
		{"zrange", key, 0, 0}, {"zrangebyscore", key, 0, 1}, {"zrem", key, "document"}, {"zscore", key, "document"},
	} {
		if refused(command...) {
			lacks = append(lacks, fmt.Sprint("+", command[0]))
		}
	}
	return lacks
}

// customerOn returns a customer whose keys a node of a cluster holds.
func (p *ping) customerOn(ctx context.Context, node pinged) (string, error) {
	cluster, ok := p.client.(*redis.ClusterClient)
	if !ok {
		return p.own, nil
	}
	for i := range 1_000_000 {
		customer := fmt.Sprintf("%s %d", p.own, i)
		master, err := cluster.MasterForKey(ctx, p.store.Key(customer))
		if err != nil {
			return "", err
		}
		if master.Options().Addr == node.name {
			return customer, nil
		}
	}
	return p.own, nil // a master without slots
}

func (p *ping) checkMemory(node pinged) {
	policy, ok := node.info["maxmemory_policy"]
	if !ok {
		p.add(node, "memory", checkWarning, "unknown: this user may not call INFO", "grant it, for ping: ACL SETUSER … +info")
		return
	}
	limit, _ := strconv.ParseInt(node.info["maxmemory"], 10, 64)
	used, _ := strconv.ParseInt(node.info["used_memory"], 10, 64)
	found := fmt.Sprintf("no limit, %s MB used, maxmemory-policy %s", group(used>>20), policy)
	if limit > 0 {
		found = fmt.Sprintf("%s of %s MB used, maxmemory-policy %s", group(used>>20), group(limit>>20), policy)
	}
	switch {
	case policy != "noeviction":
		p.add(node, "memory", checkWarning, found, "when memory is full it evicts counts, and their customers start afresh: set noeviction")
	case limit > 0 && used > limit/10*9:
		p.add(node, "memory", checkWarning, found, "when it is full, no document is counted: raise maxmemory")
	default:
		p.add(node, "memory", checkOK, found, "")
	}
}

func (p *ping) checkReplication(node pinged) {
	role, ok := node.info["role"]
	if !ok {
		return // checkMemory has said that INFO is not allowed
	}
	if role != "master" {
		p.add(node, "replication", checkFailed, "this is a replica of "+node.info["master_host"]+":"+node.info["master_port"],
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
	found := plural(int64(replicas), "replica")
	switch {
	case replicas == 0:
		p.add(node, "replication", checkOK, "a master without replicas", "")
	case offline > 0:
		p.add(node, "replication", checkWarning, fmt.Sprintf("%s, %d not in step", found, offline), "after a failover to one of those, counts would go back")
	case behind > 1<<20:
		p.add(node, "replication", checkWarning, fmt.Sprintf("%s, %s kB behind", found, group(behind>>10)), "after a failover now, that many writes of counts would be lost")
	default:
		p.add(node, "replication", checkOK, fmt.Sprintf("%s, at most %s bytes behind", found, group(behind)), "")
	}
}

func (p *ping) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, struct {
			OK     bool    `json:"ok"`
			Redis  string  `json:"redis"`
			Kind   string  `json:"kind"`
			TLS    bool    `json:"tls"`
			Ping   latency `json:"ping"`
			Peek   latency `json:"peek"`
			Checks []check `json:"checks"`
		}{!p.has(checkFailed), p.target.String(), string(p.target.Kind), p.target.TLS, p.pings, p.peek, p.checks})
	}
	var out strings.Builder
	for _, check := range p.checks {
		found := check.Found
		if check.Node != "" {
			found = check.Node + ": " + found
		}
		const indent = 22
		lines := strings.Split(report.Wrap(found, 79-indent), "\n")
		if check.Remedy != "" {
			lines = append(lines, strings.Split(report.Wrap("→ "+check.Remedy, 79-indent), "\n")...)
		}
		fmt.Fprintf(&out, "%-12s %-8s %s\n", check.Check, check.Status, lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(&out, "%*s%s\n", indent, "", line)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
