package insight

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Health says whether a Redis does what the module needs.
type Health struct {
	OK     bool    `json:"ok"` // no check failed
	Redis  string  `json:"redis"`
	Kind   Kind    `json:"kind"`
	TLS    bool    `json:"tls"`
	Ping   Latency `json:"ping"` // of PING; zero: PING is not allowed
	Peek   Latency `json:"peek"` // of the store's Peek; zero: Peek does not work
	Checks []Check `json:"checks"`
}

// Check is one check: what was found, and what to do about it.
type Check struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Node   string `json:"node,omitempty"` // of a cluster
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

// Status is the outcome of a check.
type Status string

// The outcomes.
const (
	StatusOK      Status = "ok"
	StatusWarning Status = "warning"
	StatusFailed  Status = "failed"
)

// Health checks version, latency, rights, scripts, memory, persistence, when a server
// started, and replication, on every master of a cluster, and whether workers obey. It measures
// count round trips, at least one. To check the rights it counts a document of a customer of
// its own, and forgets it again. An error means that the checks could not finish: see
// [Unreachable].
func (i *Inspector) Health(ctx context.Context, count int) (*Health, error) {
	e := examination{Inspector: i, count: max(count, 1), own: "priorityctl ping " + rand.Text(), full: make(map[string]bool)}
	e.health = Health{OK: true, Redis: i.Server.Address, Kind: i.Server.Kind, TLS: i.Server.TLS}
	if err := e.run(ctx); err != nil {
		return nil, err
	}
	return &e.health, nil
}

// examination makes the checks.
type examination struct {
	*Inspector
	count  int
	own    string // the customer for checks of rights
	health Health
	full   map[string]bool // nodes that refused a write for want of memory
}

func (e *examination) run(ctx context.Context) error {
	nodes, err := e.nodes(ctx)
	if err != nil {
		return err
	}
	if err := e.checkConnection(ctx, len(nodes)); err != nil {
		return err
	}
	for _, node := range nodes {
		e.checkVersion(node)
	}
	if err := e.checkLatency(ctx); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := e.checkRights(ctx, node); err != nil {
			return err
		}
	}
	if err := e.checkControl(ctx); err != nil {
		return err
	}
	for _, node := range nodes {
		e.checkMemory(node)
		e.checkPersistence(ctx, node)
		e.checkStart(node)
		e.checkReplication(node)
	}
	return e.checkWorkers(ctx)
}

func (e *examination) add(node master, name string, status Status, found, remedy string) {
	e.health.Checks = append(e.health.Checks, Check{name, status, node.name, found, remedy})
	e.health.OK = e.health.OK && status != StatusFailed
}

func (e *examination) checkConnection(ctx context.Context, masters int) error {
	found := e.Server.Address
	if e.Server.Kind != SingleServer && e.Server.Kind != "" {
		found += ", " + string(e.Server.Kind)
	}
	if e.Server.Kind == Cluster {
		found += " of " + Plural(int64(masters), "master")
	}
	who, err := e.Client.Do(ctx, "ACL", "WHOAMI").Text()
	switch {
	case err == nil:
		found += ", user " + Shown(who)
	case Unreachable(err):
		return err
	}
	e.add(master{}, "connection", StatusOK, found, "")
	return nil
}

// checkWorkers says which workers do not follow what operators have set, for instance
// because Redis lost the rules.
func (e *examination) checkWorkers(ctx context.Context) error {
	followed, err := e.Follow(ctx)
	if err != nil {
		followed = e.Inspector // checkControl reports it
	}
	workers, err := followed.Workers(ctx)
	switch {
	case Unreachable(err):
		return err
	case err != nil:
		e.add(master{}, "workers", StatusWarning, OneLine(e.Hidden(err)), "without their reports nobody can tell what they do")
		return nil
	case len(workers) == 0:
		e.add(master{}, "workers", StatusOK, "no reports", "")
		return nil
	}
	said := obedienceOf(workers)
	if len(said.Others) == 0 {
		e.add(master{}, "workers", StatusOK, said.Who(), "")
		return nil
	}
	remedy := "priorityctl workers names all"
	if slices.ContainsFunc(said.Others, func(u Unfollower) bool { return strings.Contains(u.Why, lostData) }) {
		remedy += "; what Redis has lost, priorityctl control import brings back, or policy apply"
	}
	e.add(master{}, "workers", StatusWarning, said.Who(), remedy)
	return nil
}

func (e *examination) checkLatency(ctx context.Context) error {
	var err error
	if e.health.Ping, err = e.measure(ctx, func() error { return e.Client.Ping(ctx).Err() }); err != nil && !redis.IsPermissionError(err) {
		return err
	}
	if err == nil {
		e.add(master{}, "ping", StatusOK, e.health.Ping.String(), "")
	}
	e.health.Peek, err = e.measure(ctx, func() error {
		_, err := e.Store.Peek(ctx, e.own)
		return err
	})
	if Unreachable(err) {
		return err
	}
	switch slow := 50 * time.Millisecond; {
	case err != nil: // checkRights reports it
	case time.Duration(e.health.Peek.MedianUS)*time.Microsecond > slow:
		e.add(master{}, "peek", StatusWarning, e.health.Peek.String(), "a decision takes as long; RedisOptions.Timeout is 250ms by default: move Redis nearer, or wrap the store with package fallback")
	default:
		e.add(master{}, "peek", StatusOK, e.health.Peek.String(), "")
	}
	return nil
}
