package insight

// words are what a check says of each kind of finding. {…} is a place for a name or a number.
var words = map[string]struct {
	check         string
	status        Outcome
	found, remedy string
}{
	"redis":             {"redis", OK, "{master}: {product}, {memory}, up for {up}", ""},
	"redis.hidden":      {"redis", OK, "{master} answers; this user may not ask for more", ""},
	"redis.unreachable": {"redis", Failed, "cannot reach {address}: {why}", "start it, or see its machine, network and address; meanwhile processes with fleet.Join decide by themselves"},
	"redis.away":        {"redis", Failed, "{why}", "restart it, or fail over to its replica; meanwhile its customers' documents are degraded, and missing here"},
	"redis.replica":     {"redis", Failed, "this is {replica}", "name the master: a replica counts nothing"},

	"data.emptied":   {"data", Failed, "Redis lost its data {ago} ago: policies and overrides from before are gone", "priorityctl control import brings an export back; if there is none, policy apply or policy withdraw settles this"},
	"data.restarted": {"data", OK, "Redis lost its data {ago} ago: operators had set nothing, and counts begin again", ""},
	"data.unknown":   {"data", Warning, "Redis lost its data {ago} ago: no worker knows of policies or overrides from before", "if there were any, priorityctl control import brings an export back; this line ends within a day, or with any policy command"},
	"data.older":     {"data", Failed, "Redis has older data: it does not know what operators changed {ago} ago, so overrides may be missing", "priorityctl control import -force brings an export back; any other change by an operator settles this"},
	"data.lost":      {"data", Failed, "{lost}", "see priorityctl status"},

	"policies":            {"policies", OK, "{source}: {summary}", ""},
	"policies.own":        {"policies", OK, "the workers' own options: operators have set none", ""},
	"policies.unreadable": {"policies", Failed, "{why}", "workers keep the policies that they know; policy apply replaces what is not JSON; a key of another type must be removed"},
	"policies.lost":       {"policies", Failed, "{lost}. Workers keep what they know", "priorityctl control import brings an export back, policy apply sets others, policy withdraw returns to the workers' own options"},

	"digest":         {"digest", Warning, "{workers}: decisions by other policies than others', or by another version of the library", "compare their options and versions: priorityctl workers"},
	"accounts.split": {"digest", Warning, "{workers}: names are split into accounts and users; not so by others", "give all processes the same option Accounts: else what a user sends is counted in two places"},
	"accounts.whole": {"digest", Warning, "{workers}: names are not split into accounts and users; by others they are", "give all processes the same option Accounts: else what a user sends is counted in two places"},

	"others":            {"policies", Warning, "{workers}: decisions by other options than those here", "name the file of their policy by -policy; tiers and a lease of their own are not known here"},
	"workers":           {"workers", OK, "{following}{replaced}", ""},
	"workers.unread":    {"workers", Failed, "not known: their reports cannot be read: {why}", "if the key is of another type, remove it by redis-cli unlink: workers write it again within a minute"},
	"workers.forbidden": {"workers", Failed, "not known: their reports cannot be read: {why}", "see whether this user may read them: docs/redis.md, \"Rights\""},
	"workers.full":      {"workers", Warning, "{following}{replaced}", "their reports cannot be written while Redis is full"},
	"workers.none":      {"workers", Warning, "no worker reports with the prefix {prefix}, and none is gone within the hour", "start workers that join (fleet.Join, join=True, join()), which are listed until they close; if they run, see whether they have this prefix and this database, and what they log"},
	"workers.away":      {"workers", Warning, "no worker is here{replaced}", "start the workers"},
	"workers.others":    {"workers", Warning, "{following}{replaced}", "priorityctl workers has all"},

	"gone":     {"gone", Warning, "no report from {n workers} for half a minute or more: {last}", "killed, hanging or cut off: see its process and log, and whether its platform has replaced it"},
	"degraded": {"degraded", Warning, "{workers}: Redis was not reached at the latest report, so each decides by itself", "see their logs, and the network between them and Redis"},

	"prefix": {"prefix", Warning, "other workers report to this server: {places}", "if they are of this fleet, give all processes one prefix and one database: else they share no counts, and a Done ends nothing"},

	"clock":         {"clock", OK, "Redis, this machine and the workers agree to within a minute", ""},
	"clock.redis":   {"clock", Warning, "Redis's clock is {off} this machine's", "set the wrong one, by NTP; until then what waits, and for how long, is not right here"},
	"clock.workers": {"clock", Warning, "{workers}: the clock is up to {off} Redis's", "set the wrong one, by NTP. Levels rest on Redis's clock alone"},
	"clock.back":    {"clock", Warning, "{documents} of {customers} are due later, and none was submitted with a delay: Redis's clock went back", "nothing is lost: they count again when the clock is where it was; until then what waits, and for how long, is too little here"},

	"waits":         {"waits", OK, "level 1: median {median}, 95 of 100 within {p95} (last hour: {hour})", ""},
	"waits.slow":    {"waits", Warning, "level 1: median {median}, 95 of 100 within {p95} (last hour: {hour})", "level 1 is slower than usual: add workers, or see what they wait for"},
	"waits.pending": {"waits", OK, "no document of level 1 was done in the last minute; {documents} pending, the oldest for {oldest}", ""},
	"waits.counted": {"waits", OK, "not known: Next counts documents, and does not know when they are done", ""},
	"waits.none":    {"waits", OK, "no worker reports a document of level 1 done in the last minute, and none is known to wait", ""},
	"waits.full":    {"waits", Warning, "not known: no report is written while Redis is full", "see redis"},
	"waits.unread":  {"waits", Warning, "not known, as the workers' reports are not", "see workers"},

	"stuck":        {"stuck", Warning, "No document of level {levels} was done in the last minute; {pending} pending, the oldest for {oldest}, of {customers}", "documents before them are done: add workers, and see priorityctl top"},
	"stuck.passed": {"stuck", Warning, "No document of level {levels} was done in the last minute; {pending} pending, the oldest for {oldest}, of {customers}; others are done far sooner", "they do not wait for others: see whether workers take these levels from the queue, and whether they call Done"},
	"stuck.all":    {"stuck", Warning, "No document of any level was done in the last minute; {pending} pending at level {levels}, the oldest for {oldest}, of {customers}", "see whether workers take documents from the queue, and whether they call Done"},

	"poison":     {"poison", Warning, "{document} of {customers} has had no Done for {oldest}, at level {level}: far longer than usual", "it takes long, fails again and again, its worker is lost, or no Done is sent: look for its id in the workers' logs; if it was given up, call Done"},
	"poison.new": {"poison", Warning, "{document} of {customers} has had no Done for {oldest}, at level {level}. It takes long or is stuck: how long this customer's documents take is not known yet", "if it should not take as long, look for its id in the workers' logs; if it was given up, call Done"},

	"done":      {"done", OK, "no document is known that lacks its Done", ""},
	"done.full": {"done", Warning, "not known: no report is written while Redis is full", "see redis"},
	"done.lost": {"done", Warning, "at least {documents} of {customers}: no Done within the lease in the last hour, so presumed lost{suspects}{workers}", doneRemedy},
	"done.late": {"done", Warning, "at least {documents} of {customers}: no Done, while others are done far sooner; the oldest for {oldest}{suspects}{workers}", doneRemedy},

	"errors.not_counted":     {"errors", Warning, "{documents} {says} in the last minute", "priorityctl ping says why"},
	"errors.outcome_unknown": {"errors", Warning, "{documents} {says} in the last minute", "Redis answers late: priorityctl ping"},
	"errors.invalid":         {"errors", Warning, "{documents} {says} in the last minute", "the workers' log has them"},
	"errors.error":           {"errors", Warning, "{documents} {says} in the last minute", "the workers' log has them"},
	"corrupt.keys":           {"corrupt", Warning, "{customers}: a key is corrupt, so each process decides by itself", "priorityctl list -corrupt names all such customers, and runbook 5 says how to remove only this key"},
	"corrupt":                {"corrupt", Warning, "{documents} {says} in the last minute", "priorityctl list -corrupt names the customers"},

	"floods":            {"floods", OK, "none is known to the workers here; priorityctl list -level 9 finds what closed processes sent, too", ""},
	"floods.some":       {"floods", OK, "{n customers}, {documents} beyond the last load; {others}", ""},
	"floods.counted":    {"floods", OK, "{n customers} at level {last} by count: {customers}. Next does not know what waits", ""},
	"floods.overridden": {"floods", Warning, "{n customers} with an override to an earlier level: {customers}. Their next documents go before others' from now on; queued ones keep their level", "{command} ends one"},

	"overrides":        {"overrides", OK, "{in force}", ""},
	"overrides.soon":   {"overrides", OK, "{in force}; about to end: {soon}", "let it end, or set it again"},
	"overrides.last":   {"overrides", OK, "at the last level for more than a day: {customers}", "if that is over: {command}"},
	"overrides.unread": {"overrides", Failed, "not known: {why}", "see redis"},

	"server.hidden":       {"server", Warning, "{master}: this user may not call INFO", "for a worker's user that is right; an operator's needs +info"},
	"version":             {"version", OK, "{master}: {product}, up for {up}", ""},
	"version.old":         {"version", Failed, "{master}: {product}, up for {up}", "upgrade to {oldest} or later"},
	"timeout":             {"timeout", Warning, "it closes connections that were idle for {seconds} s", "set timeout 0, or ConnMaxIdleTime of every client to less: else calls after a pause may fail"},
	"memory":              {"memory", OK, "{memory}", ""},
	"memory.full":         {"memory", Failed, "full: {memory}", "no document is counted, each process decides alone, and reports are not written, so workers may be missing: raise maxmemory, as by redis-cli config set maxmemory 2gb, and in redis.conf, or remove what else fills it"},
	"memory.evicts":       {"memory", Warning, "{memory}", "when memory is full it evicts counts, and their customers start afresh: set noeviction"},
	"memory.nearly":       {"memory", Warning, "{memory}", "when it is full, no document is counted: raise maxmemory"},
	"persistence":         {"persistence", OK, "append-only file", ""},
	"persistence.failed":  {"persistence", Warning, "the append-only file cannot be written", "see its log: is the disk full?"},
	"snapshots":           {"persistence", OK, "snapshots, the latest or the start at {at}", ""},
	"snapshots.failed":    {"persistence", Warning, "the latest snapshot could not be written", "see its log: is the disk full?"},
	"snapshots.none":      {"persistence", Warning, "none: neither snapshots nor an append-only file", "a restart empties it: set appendonly yes, or keep what priorityctl control export prints"},
	"replication":         {"replication", OK, "a master with {replicas}", ""},
	"replication.offline": {"replication", Warning, "a master with {replicas}", "after a failover to a replica that is not online, counts would go back: {replica}"},
	"replication.replica": {"replication", Failed, "this is {replica}", "name the master: a replica counts nothing"},
	"latency":             {"latency", OK, "Peek takes {latency} in the median", ""},
	"latency.slow":        {"latency", Warning, "Peek takes {latency} in the median", "a decision takes as long; the default timeout is 250ms: move Redis nearer"},
	"worker":              {"worker", OK, "this user may do what a worker does", ""},
	"worker.failed":       {"worker", Failed, "{why}", ""},
	"worker.old":          {"worker", Failed, "{why}", "set lua-replicate-commands yes, by CONFIG SET and in redis.conf"},
	"operator":            {"operator", OK, "this user may read and change what operators set", ""},
	"operator.forbidden":  {"operator", Warning, "{why}", "for a worker's user that is right"},
	"operator.failed":     {"operator", Failed, "{why}", ""},
}

const doneRemedy = "see whether workers take them from the queue, and call Done for each, also for one that is given up; priorityctl get says more of a customer, runbook 7 what to do"
