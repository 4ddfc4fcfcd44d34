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

// FleetChecks say who works, who is gone, who cannot reach Redis, who decides by something else than
// the others, and who reports elsewhere.
func (s *Snapshot) FleetChecks(ctx context.Context) []Check { return s.fleetChecks(ctx, false) }

// fleetChecks looks for workers elsewhere if some are missing, or documents are not done here.
func (s *Snapshot) fleetChecks(ctx context.Context, notDone bool) []Check {
	checks := s.workerChecks()
	missing := s.Totals.Reports == 0 || slices.ContainsFunc(checks, func(c Check) bool { return c.Check == "gone" })
	if (missing || notDone) && s.ReportsErr == nil && !s.Full() {
		checks = append(checks, s.elsewhere(ctx))
	}
	return checks
}

func (s *Snapshot) workerChecks() []Check {
	if s.ReportsErr != nil {
		return []Check{finding("workers.unread", "why", OneLine(s.Hidden(s.ReportsErr)))}
	}
	var gone, degraded, odd, split, whole Check
	kind, replaced, last, here := "workers", int64(0), []string(nil), false
	for _, w := range s.Workers {
		here = here || w.Here
		switch {
		case w.Replaced:
			replaced++
		case !w.Here:
			gone.processes = append(gone.processes, w)
			last = append(last, fmt.Sprintf("%s, last seen %s ago", w.Called(), ago(s.At.Sub(w.LastSeen))))
		case !w.Follows:
			kind = "workers.others"
		}
		switch {
		case !w.Here || w.unread:
		case w.Degraded:
			degraded.processes = append(degraded.processes, w)
		case w.OddDigest:
			odd.processes = append(odd.processes, w)
		}
		if w.Here && !w.unread {
			if w.splits {
				split.processes = append(split.processes, w)
			} else {
				whole.processes = append(whole.processes, w)
			}
		}
	}
	switch {
	case s.Full():
		kind = "workers.full"
	case len(s.Workers) == 0:
		kind = "workers.none"
	case !here:
		kind = "workers.away"
	}
	since := ""
	if replaced > 0 {
		since = fmt.Sprintf("; %s gone within the hour, and as many have started since", Plural(replaced, "worker"))
	}
	checks := []Check{finding(kind, "following", s.Following(), "replaced", since, "prefix", Shown(s.Prefix))}
	if gone.processes != nil && !s.Full() {
		checks = append(checks, gone.as("gone", "last", Named(last)))
	}
	if degraded.processes != nil {
		checks = append(checks, degraded.as("degraded"))
	}
	if odd.processes != nil {
		checks = append(checks, odd.as("digest"))
	}
	switch {
	case split.processes == nil || whole.processes == nil:
	case len(split.processes) < len(whole.processes):
		checks = append(checks, split.as("accounts.split"))
	default:
		checks = append(checks, whole.as("accounts.whole"))
	}
	return checks
}

// mostKeys is how many keys of a database are looked through for other fleets.
const mostKeys = 200_000

// elsewhere looks for workers under other prefixes and in other databases.
func (s *Snapshot) elsewhere(ctx context.Context) Check {
	var others Check
	var places []string
	kind := "prefix"
	for _, m := range s.Masters {
		if m.Away != nil {
			continue
		}
		ours := m.client.Options().DB
		for _, database := range m.databases() {
			options := *m.client.Options()
			options.DB = database
			client := redis.NewClient(&options)
			prefixes, all := fleetsIn(ctx, client)
			if !all {
				kind = "prefix.some"
			}
			for _, prefix := range prefixes {
				if prefix == s.Prefix && database == ours {
					continue
				}
				reports, err := fleet.Read(ctx, client, prefix)
				if err != nil { // this user may not
					kind = "prefix.some"
				}
				reports = slices.DeleteFunc(reports, func(r fleet.Report) bool { return !r.Here() })
				if len(reports) == 0 {
					continue
				}
				place := fmt.Sprintf("%s with the prefix %s", Plural(int64(len(reports)), "worker"), Shown(prefix))
				if database != ours {
					place += fmt.Sprintf(" in database %d", database)
				}
				places = append(places, place)
				for _, r := range reports {
					others.processes = append(others.processes, Worker{Name: cmp.Or(r.Name, r.ID), Host: r.Host})
				}
			}
			_ = client.Close()
		}
	}
	if places != nil {
		kind = "prefix.others"
	}
	return others.as(kind, "places", Named(places))
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

// fleetsIn returns the prefixes of the fleets of a database, and whether all its keys were looked at.
func fleetsIn(ctx context.Context, client *redis.Client) (prefixes []string, all bool) {
	const page = 5000
	_, ending, _ := strings.Cut(keys.Prefix("").Members(), keys.DefaultPrefix)
	for cursor, left := uint64(0), mostKeys; left > 0; left -= page {
		found, next, err := client.Scan(ctx, cursor, "*"+ending, page).Result()
		for _, key := range found {
			prefixes = append(prefixes, strings.TrimSuffix(key, ending))
		}
		if cursor = next; err != nil || next == 0 {
			return prefixes, err == nil
		}
	}
	return prefixes, false
}
