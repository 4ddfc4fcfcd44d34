package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestGetTellsALevelAndWhy(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	count(t, client, map[string]int{"acme": 30, "bakery": 5, "first": 1})
	submit(t, client, "clinic", 8)
	count(t, client, map[string]int{"shop": 21})
	submit(t, client, "shop", 1)
	submit(t, client, "flood", 3000)
	client.Set(t.Context(), "priority:{forever}:count", "-3", 0)
	fades := time.Now().Add(97*time.Hour + 50*time.Second) // for get to be asked in
	client.ZAdd(t.Context(), "priority:{back}:pending", redis.Z{Member: ":fades", Score: float64(fades.UnixMilli())}, redis.Z{Member: ":averages", Score: 1000})

	for customer, wants := range map[string][]string{
		"acme": {
			"rule by count next level 9 of 1 to 9: count < -20 count -29: 30 documents", "level 9, of the last document: count < -20 resets in",
			"slow because of 30 documents", "processed last", "key priority:{acme}:count policy the module's default",
		},
		"bakery":  {"next level 3 of", "count -4: 5 documents", "level 2, of the last document", "behind level 1 because", "The next document has level 3."},
		"first":   {"next level 1 of", "count 0: 1 document since", "first is not slow", "The 3rd document from now has level 2."},
		"nobody":  {"rule unknown next level 1 of 1 to 9 policy", "nobody is new, or misspelt: nothing is known about it. The next document gets level 1. priorityctl list shows all customers."},
		"forever": {"never as it is: the key has no TTL", "The 2nd document from now has level 3"},
		"clinic": {
			"rule by load next level 3 of 1 to 9: load > 64 load 9.0 recent × 9 pending × 1.40 cost = 113.4 pending 8, the oldest for",
			"the newest has level 2", "done 5.2s after they were submitted, on average lease 3m",
			"key priority:{clinic}:pending policy",
			"clinic waits behind levels 1 to 2: the next document gets level 3. Its load, itself included, is 113.4: 9 documents submitted recently × 9 pending × 1.40 times the usual cost. Level 3 is for loads up to 512.",
			"With 4 fewer pending, it gets level 2. The newest pending document has level 2, and keeps it.",
		},
		// by load, though Next has counted 21 documents before
		"shop": {"rule by load next level 1 of 1 to 9: load ≤ 8", "2.0 recent × 2 pending × 1.40 cost = 5.6"},
		"flood": {
			"next level 8 of 1 to 9: load > 32,768, ≥ 256 pending", "512.0 recent × ", "2,819 of them beyond the last load, which do not count",
			"flood waits behind levels 1 to 7", "512 or more documents submitted recently",
			"It is the 2,820th pending beyond the last load, where floods take turns. With 137 fewer of those that count, it gets level 5.",
		},
		"back": {
			"next level 2 of 1 to 9: load > 8 load 9.2 recent × 1 pending × 1.00 cost = 9.2 pending none done not known yet", "lease 24h",
			"9.24 documents submitted recently × 1 pending × the usual cost. Level 2 is for loads up to 64. If nothing more is submitted for 5h38m, the next one gets level 1.",
		},
	} {
		text := o.told("get", customer)
		holds(t, text, wants...)
		if strings.Contains(text, "count:") && strings.Contains(text, " × ") {
			t.Errorf("two stories:\n%s", text)
		}
	}
	holds(t, o.told("get", "acme", "-thresholds", "-100,-1000", "-reset-mode=last-reset"), "level 1 of 1 to 3", "whatever comes", "from the flags")
	holds(t, o.told("get", "clinic", "-thresholds", "-2,-9"), "next level 1 of 1 to 3: load ≤ 8,192")
	holds(t, o.told("get", "clinic", "-loads", "1,100", "-turns", "3"), "next level 3 of 1 to 9: load > 100")

	got := objects(t, o.told("get", "acme", "clinic", "flood", "nobody", "-json"))
	for i, want := range []map[string]any{
		{"customer": "acme", "rule": "by count", "level": 9., "next_level": 9., "count": -29., "load": 0., "pending": 0., "lease_ms": 0., "count_key": "priority:{acme}:count"},
		{
			"customer": "clinic", "rule": "by load", "level": 2., "next_level": 3., "rule_level": 3., "count": 0., "reset_in_ms": 0., "load": 113.4, "recent": 8., "cost": 1.4,
			"pending": 8., "pending_last": 0., "latency_ms": 5200., "lease_ms": 180_000., "fewer_pending": 4., "fewer_level": 2., "faded_level": 0.,
			"pending_key": "priority:{clinic}:pending",
		},
		{"customer": "flood", "rule": "by load", "level": 8., "next_level": 8., "rule_level": 8., "pending": 3000., "fewer_level": 5.},
		{"customer": "nobody", "rule": "unknown", "level": 0., "reset_in_ms": 0., "next_level": 1., "policy_name": "the module's default", "fewer_pending": 0., "faded_in_ms": 0.},
	} {
		sameFields(t, got[i], want)
	}
}

// The newest document keeps its level, beyond the last load, though others are done.
func TestGetTellsThatTheNewestDocumentWasUnlucky(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	submit(t, client, "acme", 3000)
	store, err := priority.NewRedisStore(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.DoneN(t.Context(), "acme", ids(300), 0); err != nil {
		t.Fatal(err)
	}
	holds(t, o.told("get", "acme"), "next level 4 of 1 to 9: load > 512", "pending 2,700, the oldest for", "the newest has level 8", "2,700 of them beyond the last load, which do not count",
		"acme waits behind levels 1 to 3", "512 or more documents submitted recently × 1 pending × 1.40 times", "The newest pending document has level 8, and keeps it.")
}

// However many documents are pending, get calls nothing that walks over them.
func TestGetWalksOverNoPendingDocuments(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	const pending = 100_000
	now := client.Time(t.Context()).Val().UnixMilli()
	pipeline := client.Pipeline()
	for i := 0; i < pending; i += 1000 {
		documents := make([]redis.Z, 1000)
		for j := range documents {
			documents[j] = redis.Z{Score: float64(256*now + 1), Member: fmt.Sprint(i + j)}
		}
		pipeline.ZAdd(t.Context(), "priority:{acme}:pending", documents...)
	}
	if _, err := pipeline.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.ConfigResetStat(t.Context())
	holds(t, o.told("get", "acme"), "pending 100,000, the oldest for")
	stats := client.Info(t.Context(), "commandstats").Val()
	short := []string{"cmdstat_get", "cmdstat_pttl", "cmdstat_time", "cmdstat_zcard", "cmdstat_zcount", "cmdstat_zmscore", "cmdstat_zrange", "cmdstat_zrangebyscore", "cmdstat_eval", "cmdstat_evalsha"}
	for line := range strings.Lines(stats) {
		command, _, isCommand := strings.Cut(line, ":")
		if walks := strings.Contains(command, "_z") || strings.Contains(command, "scan") || strings.Contains(command, "keys"); isCommand && walks && !slices.Contains(short, command) {
			t.Errorf("get calls %s", line)
		}
	}
	// Of ranges, the first and the last document only.
	if !strings.Contains(stats, "cmdstat_zrange:calls=2,") || !strings.Contains(stats, "cmdstat_zcount:calls=1,") {
		t.Errorf("got\n%s", stats)
	}
	if text := o.told("reset", "-yes", "acme"); text != "acme: reset (100,000 pending, 0.0 submitted recently)\n" {
		t.Errorf("got %s", text)
	}
}

func TestGetTellsWhatIsCorrupt(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	ctx := t.Context()
	client.Set(ctx, "priority:{it's}:count", "x", 0)
	client.RPush(ctx, "priority:{list}:count", "-1")
	client.Set(ctx, "priority:{pending}:pending", "x", 0)
	client.RPush(ctx, "priority:{line}:pending", "1000")
	client.ZAdd(ctx, "priority:{free}:pending", redis.Z{Member: ":fades", Score: 1e12}, redis.Z{Member: ":averages", Score: 1e6})
	o.refused(1, `priority:{it's}:count holds a string, not a count (a whole number of at most 15 digits); to forget all that is known of the customer: priorityctl reset 'it'\''s'; `+
		`to remove only this key: redis-cli -u "$PRIORITY_REDIS_URL" unlink 'priority:{it'\''s}:count'`, "get", "it's")
	client.Set(ctx, "priority:{a\nb}:count", "x", 0)
	o.refused(1, `to remove only this key: echo cHJpb3JpdHk6e2EKYn06Y291bnQ= | base64 -d | redis-cli -u "$PRIORITY_REDIS_URL" -x unlink`, "get", "a\nb")
	o.refused(1, "priority:{list}:count holds a list, not a count", "get", "list")
	o.refused(1, "priority:{pending}:pending holds a string, not pending documents; to", "get", "pending")
	o.refused(1, "priority:{line}:pending holds a list, not pending documents; to forget all that is known of the customer: priorityctl reset line;", "get", "line")
	o.refused(1, "priority:{free}:pending holds a zset, not pending documents", "get", "free")
	o.refused(4, "1 of 2 customers failed", "get", "list", "fine")
	o.refused(1, "all 2 customers failed", "get", "list", "it's")
	o.refused(2, "invalid customer", "get", strings.Repeat("a", 513))

	_, stdout, _ := o.ask("get", "-json", "list")
	if failed := objects(t, stdout); len(failed) != 1 || failed[0]["customer"] != "list" || !strings.Contains(failed[0]["error"].(string), "corrupt") {
		t.Errorf("got %s", stdout)
	}
	if text := o.told("reset", "-yes", "line") + o.told("get", "line"); !strings.HasPrefix(text, "line: reset (a corrupt key)\n") || !strings.Contains(text, "line is new") {
		t.Errorf("got\n%s", text)
	}
}

func TestALaterVersionsCustomerIsLeftToIt(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	ctx := t.Context()
	client.ZAdd(ctx, "priority:{acme}:pending", redis.Z{Member: ":fades", Score: -2}, redis.Z{Member: ":averages", Score: -2})
	const want = "acme: corrupt: a later version wrote the key priority:{acme}:pending: use that version's priorityctl"
	for _, command := range []string{"get", "reset -yes", "forget -yes -why x"} {
		words := strings.Fields(command)
		o.refused(1, want, words[0], append(words[1:], "acme")...)
	}
	if keys := client.Keys(ctx, "*").Val(); len(keys) != 1 {
		t.Errorf("left are %q", keys)
	}
}

func TestATerminalObeysNoCustomersName(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	odd := []string{"}%", "Müller & Co", "\x1b[2J", "\xff\xfe", "a\nb", `"quoted"`}
	for _, customer := range odd {
		count(t, client, map[string]int{customer: 4})
	}
	text := o.told("list") + o.told("get", odd...) + o.told("top") + o.told("reset", append([]string{"-yes"}, odd...)...)
	if strings.Contains(text, "\x1b") || !utf8.ValidString(text) {
		t.Errorf("it prints what a terminal would obey:\n%q", text)
	}
	for _, want := range []string{"  }%\n", `"Müller & Co"`, `"\x1b[2J"`, `"\xff\xfe"`, `"a\nb"`, `"\"quoted\""`} {
		if strings.Count(text, want) < 2 {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if keys := client.Keys(t.Context(), "*count*").Val(); len(keys) != 0 {
		t.Errorf("left are %q", keys)
	}
	count(t, client, map[string]int{"\xff": 1})
	if got := objects(t, o.told("list", "-json")); len(got) != 1 || got[0]["customer_base64"] != "/w==" {
		t.Errorf("got %v", got)
	}
}

func TestListShowsTheLevelsAskedFor(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	count(t, client, map[string]int{"acme": 30, "bakery": 5, "clinic": 5, "first": 1})
	client.Set(t.Context(), "priority:{bad}:count", "x", 0)

	text := o.told("list")
	fits(t, text)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines[1:])
	if len(lines) != 6 || lines[0] != "NEXT       COUNT   RESETS IN  CUSTOMER" ||
		!slices.ContainsFunc(lines, func(line string) bool { return strings.Join(strings.Fields(line), " ") == "- corrupt - bad" }) {
		t.Errorf("got\n%s", text)
	}
	var got []string
	for _, object := range objects(t, o.told("list", "-json", "-level", "3,9")) {
		got = append(got, fmt.Sprintf("%v %v %v", object["customer"], object["next_level"], object["count"]))
	}
	slices.Sort(got)
	if want := []string{"acme 9 -29", "bakery 3 -4", "clinic 3 -4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, not %q", got, want)
	}
	// Those who submit have loads, and with both a column says which it is.
	submit(t, client, "shop", 19)
	submit(t, client, "flood", 1000)
	for want, args := range map[string][]string{
		"flood":      {"-load-above", "1000"},
		"acme flood": {"-load-above", "1000", "-count-below", "-20"},
		"acme":       {"-count-below", "-20"},
		"shop":       {"-level", "4"},
	} {
		text := o.told("list", args...)
		var got []string
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); fields[0] != "NEXT" {
				got = append(got, fields[len(fields)-1])
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got\n%s", args, text)
		}
	}
	for line := range strings.Lines(o.told("list", "-level", "4")) {
		if got := strings.Join(strings.Fields(line), " "); got != "NEXT LOAD PENDING OLDEST CUSTOMER" && !strings.HasPrefix(got, "4 560.0 19 ") {
			t.Errorf("got %s", line)
		}
	}
	holds(t, o.told("list"), "NEXT RULE COUNT/LOAD PENDING OLDEST RESETS IN CUSTOMER", "9 count -29 - - ", "4 load 560.0 19 ", "- - corrupt - - - bad")

	client.Set(t.Context(), "priority:{acme}:override", "1", 0)
	holds(t, o.told("list", "-corrupt"), "- corrupt bad", "- corrupt acme, the override")
	if got := objects(t, o.told("list", "-corrupt", "-json")); len(got) != 2 || !slices.ContainsFunc(got, func(c map[string]any) bool { return c["corrupt"] == "priority:{acme}:override" }) {
		t.Errorf("got %v", got)
	}
	o.refused(2, "levels are 1 to 9", "list", "-level", "10")
	o.refused(2, "is negative", "list", "-pace", "-1")
	o.refused(2, "no cursor", "list", "-cursor", "12")
	o.refused(2, "does not fit", "list", "-cursor", "0123456789ab-0-0")
}

// A list is taken in parts, on one server and on a cluster.
func TestACursorGoesOnWhereAListStopped(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t)
	cluster := redistest.StartCluster(t, 3)
	for url, client := range map[string]redis.UniversalClient{
		"redis://" + single.Addr:                                    single.Client(),
		"redis+cluster://" + strings.Join(cluster.Addrs()[:2], ","): cluster.Client(),
	} {
		o := operatorOn(t, "-redis", url)
		documents := make(map[string]int)
		for i := range 400 {
			documents[fmt.Sprint("customer-", i)] = 1 + i%30
		}
		count(t, client, documents)
		got := make(map[string]int)
		parts := 0
		for cursor := ""; ; parts++ {
			status, stdout, stderr := o.ask("list", "-json", "-limit", "30", "-cursor", cursor)
			if status != 0 {
				t.Fatalf("%s: exit status %d, %s", url, status, stderr)
			}
			for _, object := range objects(t, stdout) {
				customer := object["customer"].(string)
				if _, double := got[customer]; double {
					t.Errorf("%s: %s comes twice", url, customer)
				}
				got[customer] = 1 - int(object["count"].(float64))
			}
			var more bool
			if _, cursor, more = strings.Cut(strings.TrimSpace(stderr), "-cursor "); !more {
				break
			}
		}
		if !maps.Equal(got, documents) || parts < 5 {
			t.Errorf("%s: %d customers in %d parts, not %d", url, len(got), parts, len(documents))
		}
	}
}

// Whoever wants one customer among other people's keys does not send a SCAN for each.
func TestAListOfFewCustomersSendsFewScans(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	const keys = 200_000
	for from := 0; from < keys; from += keys / 20 { // one script of all would make Redis busy for too long
		if err := client.Eval(t.Context(), "for i = 1, ARGV[1] do redis.call('SET', 'session:' .. ARGV[2] + i, '') end return 1", nil, keys/20, from).Err(); err != nil {
			t.Fatal(err)
		}
	}
	heavy := map[string]int{"slow": 30}
	for i := range 2000 {
		heavy[fmt.Sprint("customer-", i)] = 1
	}
	count(t, client, heavy)
	for _, call := range []struct {
		args   []string
		listed string
	}{
		{[]string{"-prefix", "nothing", "-limit", "1"}, ""},
		{[]string{"-prefix", "nothing", "-limit", "1", "-json"}, ""},
		{[]string{"-level", "9", "-limit", "2"}, "slow"}, // it meets customers, but of other levels
		{[]string{"-count-below", "-5", "-limit", "2"}, "slow"},
		{[]string{"-corrupt", "-limit", "1"}, ""},
	} {
		client.ConfigResetStat(t.Context())
		text := o.told("list", append(call.args, "-pace", "0")...)
		if !strings.Contains(text, call.listed) || strings.Count(text, "customer-") > 0 {
			t.Errorf("%q lists\n%s", call.args, text)
		}
		scans, calls := 0, client.Info(t.Context(), "commandstats").Val()
		_, after, _ := strings.Cut(calls, "cmdstat_scan:calls=")
		if _, err := fmt.Sscan(strings.NewReplacer(",", " ").Replace(after), &scans); err != nil {
			t.Fatal(err)
		}
		if most := keys/500*3/2 + 20; scans > most {
			t.Errorf("%q sends %d SCANs, more than %d", call.args, scans, most)
		}
	}
	// Where customers are plenty, few more than the limit are printed.
	client.FlushAll(t.Context())
	count(t, client, heavy)
	status, text, stderr := o.ask("list", "-json", "-limit", "3")
	if n := len(objects(t, text)); status != 0 || n < 3 || n > 20 || !strings.Contains(stderr, "go on with -cursor ") {
		t.Errorf("exit status %d, %d customers, %s", status, n, stderr)
	}
}

func TestAnInterruptedListPrintsACursor(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	documents := make(map[string]int)
	for i := range 100 {
		documents[fmt.Sprint(i)] = 1
	}
	count(t, client, documents)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	// At 10 keys a second it is certainly not through when the first line comes.
	out := writer(func(p []byte) { interrupt() })
	var stderr strings.Builder
	status := run(ctx, o.environment, slices.Concat([]string{"list", "-pace", "10", "-json"}, o.flags), strings.NewReader(""), out, &stderr)
	if status != exitInterrupted || !strings.Contains(stderr.String(), "go on with -cursor ") {
		t.Errorf("exit status %d, stderr %q", status, stderr.String())
	}
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestResetForgetsWhateverTheKeysHold(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	count(t, client, map[string]int{"acme": 30, "bakery": 5, "stays": 5})
	submit(t, client, "acme", 3)
	client.Set(t.Context(), "priority:{bad}:count", "x", 0)
	o.refused(2, "give -yes", "reset", "acme")
	if text := o.told("reset", "-yes", "acme", "bad", "nobody"); text != "acme: reset (count -29, level 9, 3 pending, 3.0 submitted recently)\nbad: reset (a corrupt key)\nnobody: reset (nothing)\n" {
		t.Errorf("got\n%s", text)
	}
	if got := objects(t, o.told("reset", "-yes", "-json", "bakery")); len(got) != 1 || got[0]["reset"] != true || got[0]["customer"] != "bakery" {
		t.Errorf("got %v", got)
	}
	if keys := client.Keys(t.Context(), "*:{[^c]*").Val(); !slices.Equal(keys, []string{"priority:{stays}:count"}) {
		t.Errorf("left are %q", keys)
	}
	o.refused(4, "1 of 2 customers failed", "reset", "-yes", "stays", "")
	o.refused(2, "invalid customer", "reset", "-yes", "")
}

func TestPingChecksAndLeavesNothing(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	holds(t, o.told("ping", "-count", "3"), "connection ok", "user default", "version ok", "ping ok", "peek ok", "next ok", "submit ok", "control ok", "memory ok", "noeviction",
		"persistence warning none: neither snapshots nor an append-only file", "start warning up for ", "replication ok", "workers ok no reports")
	client.ConfigSet(t.Context(), "maxmemory", "100mb")
	client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru")
	holds(t, o.told("ping"), "memory warning", "set noeviction")
	var object struct {
		OK     bool
		Kind   string
		Peek   struct{ Median_us, Max_us int64 }
		Checks []struct{ Check, Status, Found, Remedy string }
	}
	if err := json.Unmarshal([]byte(o.told("ping", "-json")), &object); err != nil || !object.OK || object.Kind != "single server" || len(object.Checks) != 12 || object.Peek.Max_us < object.Peek.Median_us || object.Peek.Median_us == 0 {
		t.Errorf("%v: %+v", err, object)
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("ping leaves %d keys", n)
	}
}

func TestPingFailsOnAReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	// A store waits for a replica to become the master, until its timeout.
	status, text, _ := operatorOn(t, "-redis", "redis://"+replica.Addr, "-timeout", "1s").ask("ping")
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	holds(t, text, "next failed", "replication failed")
	holds(t, operatorOn(t, "-redis", "redis://"+master.Addr).told("ping"), "1 replica, at most")
}

func TestTheRightsOfTheDocumentSuffice(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client()
	// The users that the documents spell out: of workers that call Next, and of get.
	worker := userOf(t, server, "worker", "~priority:* +evalsha +script|load +get +set +decr +decrby +incrby +pexpire +pttl +unlink")
	o := userOf(t, server, "reader", "~priority:* +evalsha +script|load +eval +get +mget +hget +pttl +zcard +zcount +zmscore +zrange +time")
	count(t, admin, map[string]int{"acme": 5})

	holds(t, o.told("get", "acme"), "level 2")
	status, text, _ := o.ask("ping")
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	holds(t, text, "next failed", "+incrby")
	holds(t, worker.told("ping"), "next ok", "submit warning", "memory warning")
	if keys := admin.Keys(t.Context(), "*").Val(); len(keys) != 1 {
		t.Errorf("ping leaves %q", keys)
	}
	worker.refused(1, "it needs +evalsha +script|load +get +pttl +zcard +zcount +zmscore +zrange +time on the keys ~priority:*", "get", "acme")
	o.refused(1, "NOPERM", "list")

	// Every way to give a password, and a wrong one.
	o = o.with(passwordVariable, "")
	o.refused(2, `no password for the user "reader"`, "get", "acme")
	o.told("get", "acme", "-password-file", file(t, "password", secret+"\n"))
	inURL := operatorOn(t, "-redis", "redis://reader:"+secret+"@"+server.Addr)
	inURL.told("get", "acme")
	inURL.refused(1, "NOPERM", "list")
	operatorOn(t, "-redis", "redis://other:"+secret+"@"+server.Addr).refused(3, "refuses the login", "get", "acme")
	operatorOn(t, "-redis", "redis://other:"+secret+"@127.0.0.1:1").refused(3, "cannot reach", "get", "acme")
	operatorOn(t, "-redis", "redis://other:"+secret+"/x@127.0.0.1:1").refused(2, "-password-file", "get", "acme")
	alone(t).refused(2, "", "get", "--redis://other:"+secret+"@127.0.0.1:1")
	byVariable := alone(t).with(urlVariable, "redis://reader:"+secret+"@"+server.Addr)
	byVariable.told("get", "acme")
	byVariable.told("get", "-help")
	byVariable.told("completion", "bash")
}

// Rights that a deployment forgot when Submit got a key and commands of its own.
func TestPingNamesTheRightThatIsMissing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client()
	for name, test := range map[string]struct{ keys, without, want string }{
		"all":       {"~priority:*", "", "submit ok"},
		"zmscore":   {"~priority:*", "+zmscore", "→ grant +zmscore: who calls Submit"},
		"zrange":    {"~priority:*", "+zrange", "→ grant +zrange: who calls Submit"},
		"pexpireat": {"~priority:*", "+pexpireat", "→ grant +pexpireat: who calls Submit"},
		"count":     {"~priority:*:count", "", "→ grant ~priority:*}:pending: who calls Submit"},
	} {
		rights := slices.DeleteFunc(strings.Fields(insight.NextRights+" "+insight.SubmitRights), func(right string) bool { return right == test.without })
		_, text, _ := userOf(t, server, name, test.keys+" "+strings.Join(rights, " ")).ask("ping")
		holds(t, text, test.want)
		if keys := admin.Keys(t.Context(), "*").Val(); len(keys) != 0 {
			t.Errorf("%s: ping leaves %q", name, keys)
		}
	}
}

// Redis quotes the password as an old server does that does not know HELLO or ACL users.
func TestNoPasswordIsPrintedThatRedisQuotes(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				request := make([]byte, 4096)
				for {
					if _, err := conn.Read(request); err != nil {
						return
					}
					_, _ = fmt.Fprintf(conn, "-ERR wrong arguments 'AUTH' 'ann' '%s'\r\n", secret)
				}
			}()
		}
	}()
	o := operatorOn(t, "-redis", "redis://ann:"+secret+"@"+listener.Addr().String(), "-timeout", "1s")
	o.refused(3, "wrong arguments 'AUTH' 'ann' '***'", "get", "acme")
}

// A password may be a word of any message, of an address or of a customer's name.
func TestAPasswordThatIsAWordGarblesNoMessage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	client.Set(t.Context(), "priority:{acme}:count", "x", 0)
	plain := operatorOn(t, "-redis", "redis://"+server.Addr)
	for _, password := range []string{"a", "acme", "count", "redis", "s", "the", "127", "priority"} {
		client.ConfigSet(t.Context(), "requirepass", "")
		_, _, want := plain.ask("get", "acme")
		client.ConfigSet(t.Context(), "requirepass", password)
		if status, _, got := operatorOn(t, "-redis", "redis://:"+password+"@"+server.Addr).ask("get", "acme"); status != 1 || got != want {
			t.Errorf("%s: exit status %d, %q and not %q", password, status, got, want)
		}
		// With another password the login is refused; with no server it is not reached.
		for url, want := range map[string]string{
			"redis://:" + password + "x@" + server.Addr: "redis://" + server.Addr + " refuses the login: WRONGPASS invalid username-password pair or user is disabled.",
			"redis://:" + password + "@127.0.0.1:1":     "cannot reach redis://127.0.0.1:1: connection refused",
		} {
			operatorOn(t, "-redis", url).refused(3, want, "get", "acme")
		}
	}
}

func TestTLSIsCheckedBothWays(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	server := redistest.StartTLS(t, cert, key, cert)
	_, port, _ := net.SplitHostPort(server.Addr)
	url := "rediss://localhost:" + port
	o := operatorOn(t, "-redis", url, "-tls-ca", cert, "-tls-cert", cert, "-tls-key", key, "-tls-server-name", "redis.test")
	o.told("get", "acme")
	if !strings.Contains(o.told("ping", "-json"), `"tls":true`) {
		t.Error("ping does not tell of TLS")
	}
	operatorOn(t, "-redis", url, "-tls-ca", cert, "-tls-cert", cert, "-tls-key", key).refused(3, "-tls-server-name", "get", "acme")
	operatorOn(t, "-redis", url, "-tls-server-name", "redis.test").refused(3, "-tls-ca", "get", "acme")
	operatorOn(t, "-redis", url, "-tls-cert", cert).refused(2, "go together", "get", "acme")
	operatorOn(t, "-redis", url, "-tls-ca", key).refused(2, "no certificate", "get", "acme")
	operatorOn(t, "-redis", "redis://"+server.Addr, "-tls-ca", cert).refused(2, "rediss://", "get", "acme")
}

// certificate writes a certificate of redis.test that is its own authority, a
// server's and a client's, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"redis.test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", keyBytes)
}

func TestEveryMasterOfAClusterIsCheckedAndEveryKeyForgotten(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	o := operatorOn(t, "-redis", "redis+cluster://"+cluster.Addrs()[0])
	for _, addr := range cluster.Addrs() {
		holds(t, o.told("ping"), "next ok "+addr)
	}
	submit(t, cluster.Client(), "}odd%", 11)
	holds(t, o.told("get", "}odd%"), "next level 3 of 1 to 9: load > 64", "priority:{%7Dodd%25}:pending")
	o.told("reset", "-yes", "}odd%")
	if left := cluster.Client().Exists(t.Context(), "priority:{%7Dodd%25}:count", "priority:{%7Dodd%25}:pending").Val(); left != 0 {
		t.Errorf("reset leaves %d keys", left)
	}
}

func TestLosingRedisHasAnExitStatusOfItsOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	count(t, server.Client(), map[string]int{"acme": 5})
	o := operatorOn(t, "-redis", "redis://"+server.Addr, "-timeout", "200ms")
	out := writer(func([]byte) { server.Kill() })
	var stderr strings.Builder
	args := slices.Concat([]string{"get", "-json"}, o.flags, []string{"acme", "bakery"})
	if status := run(t.Context(), o.environment, args, strings.NewReader(""), out, &stderr); status != exitUnreachable {
		t.Errorf("exit status %d, %s", status, stderr.String())
	}
	o.refused(3, "cannot reach", "list")
	o.refused(3, "cannot reach", "top")
	o.refused(3, "cannot reach", "ping")
	o.refused(3, "cannot reach", "reset", "-yes", "acme")
}

func TestAPolicysFileIsReadAsItIsPrinted(t *testing.T) {
	t.Parallel()
	o := alone(t)
	holds(t, o.told("policy"), "1 load ≤ 8 count ≥ -2 1–3", "6 load > 32,768 count < -10 12–13", "9 load > 32,768, ≥ 4,096 pending count < -20 22 and on", "So floods take turns.", "more than 25m after", "25 * time.Minute")
	team := file(t, "team.json", o.told("policy", "-thresholds", "-2,-9", "-reset-interval", "90s", "-reset-mode", "last-reset", "-json"))
	if again := o.told("policy", "-policy", team, "-json"); again != `{"thresholds":[-2,-9],"reset_interval_ms":90000,"reset_mode":"last-reset","loads":[8192,32768],"turns":0}`+"\n" {
		t.Errorf("got %s", again)
	}
	holds(t, o.told("policy", "check", team), ": ok, 3 levels")
	holds(t, o.told("policy", "compare", "default", team), " -5 to -6 3 2 merged ", " -10 5 3 split", "LOAD A B ≤ 8 1 1 > 8 to 64 2 1 merged", "> 32,768 6 3", "Beyond the last load, floods get levels 6 to 9 by A, and level 3 by B.")
	holds(t, o.told("policy", "compare", "default", "default"), "the same order")
	if got := objects(t, o.told("policy", "compare", "-json", "default", team)); len(got) != 1 || len(got[0]["counts"].([]any)) != 10 || len(got[0]["loads"].([]any)) != 6 {
		t.Errorf("got %v", got)
	}
	one := file(t, "one.json", `{"thresholds":[]}`)
	holds(t, o.told("policy", "-policy", one), "1 any load any count 1 and on")
	if text := o.told("policy", "-policy", one, "-json"); !strings.Contains(text, `"thresholds":[],`) {
		t.Errorf("got %s", text)
	}
	turns := file(t, "turns.json", o.told("policy", "-loads", "8,512", "-turns", "7", "-json"))
	holds(t, o.told("policy", "-policy", turns), "10 load > 512, ≥ 4,096 pending none none", "3 load > 512 count < -4 6–7", "[]float64{8, 512}", "Turns: 7,")
	holds(t, o.told("policy", "compare", "default", turns), "Beyond the last load, floods get levels 6 to 9 by A, and levels 3 to 10 by B.")
	more := file(t, "more.json", `{"turns":13}`)
	holds(t, o.told("policy", "compare", "default", more), "floods get levels 6 to 9 by A, and levels 6 to 19 by B. Otherwise both give counts and loads the same order.")
	for text, want := range map[string]string{
		"":                             "not a policy",
		"[]":                           "not a policy",
		"{} {}":                        "behind its object",
		`{"threshold":[-2]}`:           "unknown field",
		`{"thresholds":[-2,-2]}`:       "is not below",
		`{"reset_mode":"never"}`:       "last-update or last-reset",
		`{"reset_interval_ms":-1}`:     "reset_interval_ms -1",
		`{"reset_interval_ms":9e15}`:   "",
		`{"thresholds":[-2],"x":"\n"}`: "unknown field",
	} {
		o.refused(2, want, "policy", "check", file(t, "bad.json", text))
	}
	o.refused(2, "no such file", "get", "-policy", "no-such-file.json", "acme")
	o.refused(2, "leave out", "policy", "-policy", team, "-thresholds", "-1")
	o.refused(2, "last-update or last-reset", "policy", "-reset-mode", "never")
	o.refused(2, "is not below", "policy", "-thresholds", "-1,-1")
	o.refused(2, "not a whole number", "policy", "-thresholds", "-1,x")
	o.refused(2, `-loads: "x" is not a number`, "policy", "-loads", "1,x")
	o.refused(2, "Loads[1]", "policy", "-loads", "2,1")
}

func TestAWrongCallNeedsNoRedis(t *testing.T) {
	t.Parallel()
	o := alone(t)
	o.refused(2, "did you mean policy", "polcy")
	o.refused(2, "did you mean check", "policy", "chek")
	o.refused(2, "did you mean check", "help", "policy", "chek")
	o.refused(2, "did you mean bash", "completion", "bsh")
	o.refused(2, `unknown command "extra"`, "completion", "bash", "extra")
	o.refused(2, "unknown command", "override", "nonsense")
	o.refused(2, "name a customer, or a file of them by -from", "get")
	o.refused(2, "name a customer, or a file of them by -from", "reset", "-yes")
	o.refused(2, "not both", "get", "acme", "-from", "list")
	o.refused(2, "no level, no count and no load", "list", "-corrupt", "-level", "9")
	o.refused(2, "-timeout", "get", "acme", "-timeout", "0s")
	o.refused(2, "unknown command", "list", "acme")
	o.refused(2, "brace", "get", "acme", "-prefix", "a{b", "-redis", "redis://127.0.0.1:1")
	o.refused(2, "unknown flag -nonsense", "top", "-nonsense")
	for _, command := range []string{"ping", "get", "top", "list", "reset"} {
		holds(t, o.told(command, "-help"), "redis+sentinel://", passwordVariable, "Exit statuses:", "--reset-mode", "-json")
	}
	holds(t, o.told("-help"), "Exit statuses:", "Operate a fleet:")
}

// Whoever names no Redis is told which one it is, before it is asked.
func TestTheDefaultRedisIsNamedOnStderr(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	count(t, server.Client(), map[string]int{"acme": 5})
	o := alone(t)
	o.defaultURL = "redis://" + server.Addr
	const says = "priorityctl: no -redis and no PRIORITY_REDIS_URL: using "
	status, stdout, stderr := o.ask("get", "acme", "-json")
	if got := objects(t, stdout); status != 0 || len(got) != 1 || got[0]["customer"] != "acme" || stderr != says+o.defaultURL+"\n" {
		t.Errorf("exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	o.told("get", "acme", "-redis", o.defaultURL)
	o.told("policy", "-json") // which needs none
	o.defaultURL = "redis://127.0.0.1:1"
	o.refused(3, says+o.defaultURL+"\npriorityctl: cannot reach ", "list")
	// The tests' own environment has no default.
	alone(t).refused(2, "no Redis is named: give -redis or set PRIORITY_REDIS_URL", "get", "acme")
}

func TestTheShellCompletesLevelsAndModes(t *testing.T) {
	t.Parallel()
	o := alone(t)
	for want, args := range map[string][]string{
		"last-reset\n": {"get", "--reset-mode", ""},
		"9\tcount < -20, load > 32,768, ≥ 4,096 pending\n": {"list", "--level", ""},
		"3\tcount < -9, load > 32,768\n":                   {"list", "--thresholds", "-2,-9", "--level", ""},
		"compare\tShows":                                   {"policy", "com"},
		"get\tSays why":                                    {"g"},
		"--password-file\t":                                {"ping", "--pass"},
	} {
		var stdout strings.Builder // on stderr, cobra talks to a shell's script
		status := run(t.Context(), o.environment, append([]string{"__complete"}, args...), nil, &stdout, io.Discard)
		if status != 0 || !strings.Contains(stdout.String(), want) {
			t.Errorf("%q: exit status %d, %q", args, status, stdout.String())
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if !strings.Contains(o.told("completion", shell), "priorityctl") {
			t.Errorf("no completion for %s", shell)
		}
	}
}

// While Redis is full, no line says that it is fine to count or to change.
func TestPingTellsThatRedisIsFull(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	client.ConfigSet(t.Context(), "maxmemory", "1")
	status, stdout, _ := o.ask("ping")
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	holds(t, stdout, "next failed", "Redis is full (OOM): raise maxmemory → see memory", "control failed this user may read and change what operators set, but every change fails: Redis is full",
		"memory failed full: ", "→ no document is counted: raise maxmemory, by CONFIG SET and in redis.conf")
}

// A worker's own user needs no more rights, and ping does not say so.
func TestPingGrantsAWorkerNoOperatorsRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	worker := userOf(t, server, "worker", "~priority:* +ping +zrem "+insight.NextRights+" "+insight.SubmitRights)
	status, stdout, _ := worker.ask("ping")
	if status != 0 {
		t.Errorf("exit status %d", status)
	}
	holds(t, stdout, "version warning unknown: this user may not call INFO → for a worker's user that is right; an operator's needs +info",
		"control warning this user may not read what operators set → for a worker's user that is right; for an operator's grant +eval +hget")
}
