package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/internal/redistest"
)

// workerVariable makes the test's program a worker on the cluster that it names.
const workerVariable = "PRIORITY_CONTROL_WORKER"

func TestMain(m *testing.M) {
	if addrs := os.Getenv(workerVariable); addrs != "" {
		if err := work(strings.Split(addrs, ","), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// The customers of the fleet. All have sent so much that they are at the last level,
// and the first one gets an override.
var fleetCustomers = []string{"acme", "bakery", "clinic", "dealer"}

// work counts documents until stdin ends, and writes a line for each: when it was
// sent, the customer, the decision and the error's class.
func work(addrs []string, stdin io.Reader, stdout io.Writer) error {
	told := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(told)
	}()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer client.Close()
	store, err := control.New(client, &control.Options{Store: priority.RedisOptions{Timeout: 5 * time.Second}})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	for i := 0; ; i++ {
		select {
		case <-told:
			return errors.Join(out.Flush(), store.Close(context.Background()))
		case <-time.After(time.Millisecond):
		}
		customer, sent := fleetCustomers[i%len(fleetCustomers)], time.Now()
		decision, err := store.Next(context.Background(), customer)
		outcome := "ok"
		switch {
		case errors.Is(err, priority.ErrNotCounted):
			outcome = "not-counted"
		case errors.Is(err, priority.ErrOutcomeUnknown):
			outcome = "unknown"
		case err != nil:
			return err
		}
		fmt.Fprintln(out, sent.UnixNano(), customer, decision.Level, decision.Ruled, decision.Count, outcome)
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// fleet is eight worker processes, and what they have told.
type fleet struct {
	t    *testing.T
	book ledger.Ledger
	stop func() // ends the workers, and waits for what they have told

	mu   sync.Mutex
	last []map[string]told // of each worker, by customer
	late []string
	want expectation
}

type told struct {
	sent         time.Time
	level, ruled priority.Level
}

// expectation is what all workers must decide from a moment on.
type expectation struct {
	from time.Time
	what string
	is   func(customer string, t told) bool
}

const fleetWorkers = 8

func startFleet(t *testing.T, addrs []string) *fleet {
	f := &fleet{t: t, last: make([]map[string]told, fleetWorkers)}
	var readers sync.WaitGroup
	var ends []io.Closer
	for worker := range fleetWorkers {
		f.last[worker] = make(map[string]told)
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), workerVariable+"="+strings.Join(addrs, ","))
		command.Stderr = os.Stderr
		stdin, err1 := command.StdinPipe()
		stdout, err2 := command.StdoutPipe()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		redistest.StartProgram(t, command)
		readers.Go(func() { f.read(worker, stdout) })
		ends = append(ends, stdin)
	}
	f.stop = sync.OnceFunc(func() {
		for _, end := range ends {
			_ = end.Close()
		}
		readers.Wait()
	})
	t.Cleanup(f.stop)
	return f
}

func (f *fleet) read(worker int, lines io.Reader) {
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		var nanoseconds, count int64
		var customer, outcome string
		var now told
		if _, err := fmt.Sscan(scanner.Text(), &nanoseconds, &customer, &now.level, &now.ruled, &count, &outcome); err != nil {
			f.t.Errorf("worker %d wrote %q: %v", worker, scanner.Text(), err)
			continue
		}
		now.sent = time.Unix(0, nanoseconds)
		err := map[string]error{"not-counted": priority.ErrNotCounted, "unknown": priority.ErrOutcomeUnknown}[outcome]
		f.book.Note(customer, priority.Decision{Level: now.level, Count: count}, err)
		if err != nil {
			continue
		}
		f.mu.Lock()
		f.last[worker][customer] = now
		if w := f.want; w.is != nil && now.sent.After(w.from) && !w.is(customer, now) && len(f.late) < 10 {
			f.late = append(f.late, fmt.Sprintf("%s: worker %d gave %s level %d (ruled %d) %v after the change",
				w.what, worker, customer, now.level, now.ruled, now.sent.Sub(w.from)+follows))
		}
		f.mu.Unlock()
	}
}

// follows is how soon workers must follow a change, on a machine that may stand still
// for seconds. How soon they do otherwise is tested in virtual time.
const follows = 6 * time.Second

// await waits until all workers do as they should, which they must from then on.
func (f *fleet) await(what string, is func(customer string, t told) bool) {
	f.t.Helper()
	changed := time.Now()
	f.mu.Lock()
	f.want = expectation{changed.Add(follows), what, is}
	f.mu.Unlock()
	redistest.Await(f.t, what, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, customers := range f.last {
			for _, customer := range fleetCustomers {
				if now := customers[customer]; !now.sent.After(changed) || !is(customer, now) {
					return false
				}
			}
		}
		return true
	})
	f.t.Logf("%s: followed by all after %v", what, time.Since(changed).Round(time.Millisecond))
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, late := range f.late {
		f.t.Error(late)
	}
	f.late, f.want = nil, expectation{}
}

// Ten times: an override, other rules, the earlier ones again, the end of the override.
// In the middle a node fails over.
func TestEightProcessesFollowOperatorsAndCountExactly(t *testing.T) {
	ctx := t.Context()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	admin := openAdmin(t, client, nil)
	holder := must(client.MasterForKey(ctx, "priority:{control}:document"))(t).Options().Addr
	var replica *redis.Client
	var addrs []string
	for _, master := range cluster.Masters {
		addrs = append(addrs, master.Addr)
		if master.Addr == holder {
			replica = cluster.AddReplica(master).Client()
		}
	}
	by := control.Change{By: "operator", Why: "a test"}
	nine, err := admin.Apply(ctx, control.Rules{}, by)
	if err != nil {
		t.Fatal(err)
	}
	inForce := nine

	f := startFleet(t, addrs)
	ruledAt := func(level priority.Level, isOverridden bool) func(string, told) bool {
		return func(customer string, now told) bool {
			if customer == "acme" && isOverridden {
				return now.level == 2 && now.ruled == level
			}
			return now.level == level && now.ruled == 0
		}
	}
	f.await("all are at the last level", ruledAt(9, false))
	for round := range 10 {
		override, err := admin.SetOverride(ctx, "acme", control.Pin(2), time.Hour, by)
		if err != nil {
			t.Fatal(err)
		}
		f.await("an override", ruledAt(9, true))
		if round == 5 {
			if err := replica.ClusterFailover(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			redistest.Await(t, "the replica has taken over", func() bool {
				return strings.Contains(replica.Info(ctx, "replication").Val(), "role:master")
			})
		}
		change := by
		change.Replaces = inForce
		if inForce, err = admin.Apply(ctx, control.Rules{Policy: priority.Policy{Thresholds: []int64{-1, -2, -3, -4}}}, change); err != nil {
			t.Fatal(err)
		}
		f.await("other rules", ruledAt(5, true))
		change.Replaces = inForce
		if inForce, err = admin.Rollback(ctx, nine, change); err != nil {
			t.Fatal(err)
		}
		f.await("a rollback", ruledAt(9, true))
		change.Replaces = override
		if _, err := admin.EndOverride(ctx, "acme", change); err != nil {
			t.Fatal(err)
		}
		f.await("the end of an override", ruledAt(9, false))
	}
	f.stop()

	own := openStore(t, client, nil)
	found := f.book.Reconcile(func(customer string) (int64, bool) {
		decision, err := own.Peek(ctx, customer)
		if err != nil {
			t.Fatal(err)
		}
		return decision.Count, decision.ResetIn > 0
	})
	t.Log(f.book.Totals(), "→", found)
	if !found.Exact() {
		t.Error("the books are not exact")
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
