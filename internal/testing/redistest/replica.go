package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// StartReplica starts a replica of a server and waits until it has caught up.
func StartReplica(tb testing.TB, master *Server, args ...string) *Server {
	tb.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := Start(tb, append([]string{"--replicaof", host, port}, args...)...)
	awaitReplica(tb, master.Client(), replica.Client())
	return replica
}

// awaitReplica waits until what is written to a master reaches its replica, which
// is later than the link between them is up. Both must be empty.
func awaitReplica(tb testing.TB, master, replica *redis.Client) {
	tb.Helper()
	ctx := context.Background()
	// A cluster's master takes keys of its own slots only.
	key := ""
	for i := 0; key == ""; i++ {
		if name := fmt.Sprint("probe", i); master.Set(ctx, name, "", 0).Err() == nil {
			key = name
		} else if i == 1000 {
			tb.Fatal("the master takes no key")
		}
	}
	Await(tb, "a write reaches the replica", func() bool { return replica.DBSize(ctx).Val() == 1 })
	master.Del(ctx, key)
}

// MasterName is the name by which a sentinel of StartSentinel knows its master.
const MasterName = "counts"

// StartSentinel starts a sentinel that alone decides on a failover, half a
// second after its master is gone, and waits until it knows a replica. It
// returns the sentinel's address.
func StartSentinel(tb testing.TB, master *Server) string {
	tb.Helper()
	program := serverProgram(tb)
	host, port, _ := net.SplitHostPort(master.Addr)
	own := FreePort(tb)
	config := filepath.Join(tb.TempDir(), "sentinel.conf")
	lines := []string{
		fmt.Sprintf("port %d", own), "bind 127.0.0.1", "dir " + filepath.Dir(config), "logfile sentinel.log",
		fmt.Sprintf("sentinel monitor %s %s %s 1", MasterName, host, port),
		"sentinel down-after-milliseconds " + MasterName + " 500",
		"sentinel failover-timeout " + MasterName + " 5000",
	}
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(program, config, "--sentinel")
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr := fmt.Sprintf("127.0.0.1:%d", own)
	client := redis.NewSentinelClient(&redis.Options{Addr: addr})
	tb.Cleanup(func() { _ = client.Close() })
	Await(tb, "the sentinel knows a replica", func() bool {
		replicas, err := client.Replicas(context.Background(), MasterName).Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
	return addr
}
