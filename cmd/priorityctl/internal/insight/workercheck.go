package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/keys"
)

// WorkerChecks say who works, who is gone or cannot reach Redis, who decides by something else than
// the others, and who reports elsewhere, if some are missing here, or documents are not done.
func (s *Snapshot) WorkerChecks(ctx context.Context, notDone bool) []Check {
	if s.ReportsErr != nil {
		kind := "workers.unread"
		if Forbidden(s.ReportsErr) {
			kind = "workers.forbidden"
		}
		return []Check{finding(kind, "why", OneLine(s.Hidden(s.ReportsErr)))}
	}
	kind, replaced, last := "workers", int64(0), []string(nil)
	of := make(map[string][]Worker) // by what is said of them
	for _, w := range s.Workers {
		say := func(kind string, is bool) {
			if is {
				of[kind] = append(of[kind], w)
			}
		}
		if w.Replaced {
			replaced++
		} else if !w.Here {
			last = append(last, fmt.Sprintf("%s, last seen %s ago", w.Called(), ago(s.At.Sub(w.LastSeen))))
			say("gone", !s.Full())
		} else if !w.Follows {
			kind = "workers.others"
		}
		say("degraded", w.Here && w.Degraded)
		say("digest", w.OddDigest)
		say("accounts.split", w.unlike && w.splits)
		say("accounts.whole", w.unlike && !w.splits)
	}
	switch {
	case s.Full():
		kind = "workers.full"
	case len(s.Workers) == 0:
		kind = "workers.none"
	case s.Totals.Reports+s.Totals.Unreadable == 0:
		kind = "workers.away"
	}
	since := ""
	if replaced > 0 {
		since = fmt.Sprintf("; %s gone within the hour, and as many have started since", Plural(replaced, "worker"))
	}
	checks := []Check{finding(kind, "following", s.Following(), "replaced", since, "prefix", Shown(s.Prefix))}
	for _, kind := range []string{"gone", "degraded", "digest", "accounts.split", "accounts.whole"} {
		if of[kind] != nil {
			checks = append(checks, Check{processes: of[kind]}.as(kind, "last", Named(last)))
		}
	}
	if (s.Totals.Reports == 0 || of["gone"] != nil || notDone) && !s.Full() {
		checks = append(checks, s.elsewhere(ctx)...)
	}
	return checks
}

// mostKeys is how many keys of a database are looked through for other fleets.
const mostKeys = 200_000

// elsewhere looks for workers under other prefixes and in other databases.
func (s *Snapshot) elsewhere(ctx context.Context) []Check {
	var others Check
	var places []string
	for _, m := range s.Masters {
		if m.Away != nil {
			continue
		}
		ours := m.client.Options().DB
		for _, database := range m.databases() {
			options := *m.client.Options()
			options.DB = database
			client := redis.NewClient(&options)
			defer client.Close()
			for _, prefix := range fleetsIn(ctx, client) {
				if prefix == s.Prefix && database == ours {
					continue
				}
				reports, _ := fleet.Read(ctx, client, prefix) // nil, if this user may not
				reports = slices.DeleteFunc(reports, func(r fleet.Report) bool { return !r.Here() })
				for _, r := range reports {
					others.processes = append(others.processes, Worker{Name: cmp.Or(r.Name, r.ID), Host: r.Host})
				}
				if len(reports) > 0 {
					places = append(places, fmt.Sprintf("%s with the prefix %s in database %d", Plural(int64(len(reports)), "worker"), Shown(prefix), database))
				}
			}
		}
	}
	if places == nil {
		return nil
	}
	return []Check{others.as("prefix", "places", Named(places))}
}

// databases returns the databases with keys, as far as that is known.
func (m Master) databases() []int {
	all := []int{m.client.Options().DB}
	for field := range m.info { // such as db0
		number, ok := strings.CutPrefix(field, "db")
		if n, err := strconv.Atoi(number); ok && err == nil && n != all[0] {
			all = append(all, n)
		}
	}
	slices.Sort(all[1:])
	return all
}

// fleetsIn returns the prefixes of the fleets of a database.
func fleetsIn(ctx context.Context, client *redis.Client) (prefixes []string) {
	const page = 5000
	_, ending, _ := strings.Cut(keys.Prefix("").Members(), keys.DefaultPrefix)
	for cursor, left := uint64(0), mostKeys; left > 0; left -= page {
		found, next, err := client.Scan(ctx, cursor, "*"+ending, page).Result()
		for _, key := range found {
			prefixes = append(prefixes, strings.TrimSuffix(key, ending))
		}
		if cursor = next; err != nil || next == 0 {
			break
		}
	}
	return prefixes
}
