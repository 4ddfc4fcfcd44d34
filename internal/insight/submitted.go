package insight

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/script"
)

// Submitted is what Submit makes of a customer. Durations are in milliseconds.
type Submitted struct {
	NextLevel priority.Level `json:"next_level"` // that Submit would give to the next document

	// The mean of these two, rounded up, is the level on a scale of 9.
	UsageLevel   int `json:"usage_level"`
	PendingLevel int `json:"pending_level"`
	ScaleLevel   int `json:"scale_level"`

	Usage       float64 `json:"usage"` // documents submitted lately
	UsageTTLMS  int64   `json:"usage_ttl_ms"`
	FadesInMS   int64   `json:"usage_fades_in_ms"` // to a better UsageLevel; 0: there is none
	Ordinary    int64   `json:"ordinary"`          // pending, without those at the last level
	AtLastLevel int64   `json:"at_last_level"`     // pending too
	NewestLast  bool    `json:"newest_at_last_level"`
	Cost        float64 `json:"cost"`       // of a document; of those of all customers: 1
	SojournMS   int64   `json:"sojourn_ms"` // from Submit to Done on average; 0: not known
	LeaseMS     int64   `json:"lease_ms"`   // after which a Done is presumed lost

	// When NextLevel gets better: with so many fewer pending, or as the usage fades.
	// 0: that alone does not do it.
	FewerPending int64          `json:"fewer_pending"`
	FewerLevel   priority.Level `json:"fewer_level"`
	FadedInMS    int64          `json:"faded_in_ms"`
	FadedLevel   priority.Level `json:"faded_level"`

	known bool // the customer has something pending or a usage
	scale fair.Scale
	cost  int64 // in thousandths
}

// submittedOf explains the level that a customer has by Submit.
func submittedOf(policy priority.Policy, known script.Peeked) Submitted {
	scale := fair.ScaleOf(policy.Thresholds)
	of := func(usage float64, pending int64) priority.Level {
		level, _ := scale.Level(usage, pending, known.Cost)
		return priority.Level(level)
	}
	// what will have been submitted lately, after some seconds without a document
	usageIn := func(seconds int) float64 {
		var now time.Time
		return fair.History{Fades: now.Add(known.UsageLeft)}.Usage(now.Add(time.Duration(seconds) * time.Second))
	}
	usage := usageIn(0)
	s := Submitted{
		NextLevel: of(usage+1, known.Ordinary+1), Usage: usage, UsageTTLMS: known.UsageLeft.Milliseconds(),
		Ordinary: known.Ordinary, AtLastLevel: known.Pending - known.Ordinary, Cost: float64(known.Cost) / 1000,
		SojournMS: known.Sojourn.Milliseconds(), LeaseMS: known.Lease.Milliseconds(),
		NewestLast: known.Pending > 0 && priority.Level(known.Level) != of(usage, known.Ordinary),
		known:      known.HasUsage || known.Pending > 0, scale: scale, cost: known.Cost,
	}
	s.UsageLevel, s.PendingLevel = s.scale.Parts(usage, known.Ordinary, known.Cost)
	s.ScaleLevel = mean(s.UsageLevel, s.PendingLevel)

	faded := seconds(func(n int) bool { level, _ := s.scale.Parts(usageIn(n), 0, known.Cost); return level < s.UsageLevel })
	s.FadesInMS = faded.Milliseconds()
	fewer := 1 + sort.Search(int(known.Ordinary), func(n int) bool { return of(usage+1, known.Ordinary-int64(n)) < s.NextLevel })
	if int64(fewer) <= known.Ordinary {
		s.FewerPending, s.FewerLevel = int64(fewer), of(usage+1, known.Ordinary+1-int64(fewer))
	}
	faded = seconds(func(n int) bool { return of(usageIn(n)+1, known.Ordinary+1) < s.NextLevel })
	if faded > 0 && s.PendingLevel == 1 { // or else what is pending is done, or presumed lost, before
		s.FadedInMS, s.FadedLevel = faded.Milliseconds(), of(usageIn(int(faded.Seconds()))+1, known.Ordinary+1)
	}
	return s
}

// seconds returns the first second from which on something is so; 0: never. By then
// every usage is forgotten.
func seconds(so func(n int) bool) time.Duration {
	const enough = 100 * 24 * 60 * 60
	if n := sort.Search(enough, so); n < enough {
		return time.Duration(n) * time.Second
	}
	return 0
}

func mean(a, b int) int { return (a + b + 1) / 2 }

// writeTo writes the rows of a table.
func (s Submitted) writeTo(line func(label, format string, args ...any)) {
	fades := ""
	if s.FadesInMS > 0 {
		fades = fmt.Sprintf(", %d in %s", s.UsageLevel-1, long(s.FadesInMS))
	}
	line("usage", "%s → %d of %d%s", s.lately(s.Usage), s.UsageLevel, fair.Levels, fades)
	pending := "none"
	if s.Ordinary > 0 {
		pending = Group(s.Ordinary) + s.atCost()
	}
	line("pending", "%s → %d of %d", pending, s.PendingLevel, fair.Levels)
	if s.AtLastLevel > 0 {
		line("", "%s more at the last level, which do not count", Group(s.AtLastLevel))
	}
	took := "not known yet how long after Submit"
	if s.SojournMS > 0 {
		took = long(s.SojournMS) + " after Submit on average"
	}
	line("done", "%s; presumed lost after %s", took, long(s.LeaseMS))
}

// why says how a level of Submit comes about and when it gets better, as what
// follows the customer's name.
func (s Submitted) why(level priority.Level, pending int64) string {
	waits := "is processed first"
	if level > priority.First {
		waits = "waits behind " + levelsBefore(level)
	}
	var why strings.Builder
	switch {
	case pending == 0:
		fmt.Fprintf(&why, " has nothing pending. The next document gets level %d by Submit: %s.", s.NextLevel, s.because(s.Usage+1, s.Ordinary+1))
	case s.NewestLast:
		fmt.Fprintf(&why, " has level %d by Submit: the newest document was given it, and %s. The next one gets level %d: %s.",
			level, waits, s.NextLevel, s.because(s.Usage+1, s.Ordinary+1))
	default:
		fmt.Fprintf(&why, " has level %d by Submit: %s. It %s.", level, s.because(s.Usage, s.Ordinary), waits)
	}
	if s.FewerPending > 0 {
		fmt.Fprintf(&why, " With %s fewer pending the next document gets level %d.", Group(s.FewerPending), s.FewerLevel)
	}
	if s.FadedInMS > 0 {
		fmt.Fprintf(&why, " If nothing more is submitted for %s, the next one gets level %d.", long(s.FadedInMS), s.FadedLevel)
	}
	return why.String()
}

// because says what a level is the mean of.
func (s Submitted) because(usage float64, pending int64) string {
	ofUsage, ofPending := s.scale.Parts(usage, pending, s.cost)
	because := fmt.Sprintf("the mean, rounded up, of %d (%s) and %d (%s pending%s)",
		ofUsage, s.lately(usage), ofPending, Group(pending), s.atCost())
	if s.scale.Levels < fair.Levels {
		because = fmt.Sprintf("%d of %d, which is %s", mean(ofUsage, ofPending), fair.Levels, because)
	}
	return because
}

// lately says what was submitted lately. Much more than the last level takes is not
// remembered.
func (s Submitted) lately(usage float64) string {
	most := s.scale.First << (fair.Levels - 2)
	switch ofUsage, _ := s.scale.Parts(usage, 0, s.cost); {
	case ofUsage == fair.Levels:
		return fmt.Sprintf("more than %s documents submitted lately", Group(most))
	case usage == 0:
		return "nothing submitted lately"
	}
	return amount(usage, "document") + " submitted lately"
}

// atCost says what pending documents cost.
func (s Submitted) atCost() string {
	times := amount(s.Cost, "time")
	if times == "1 time" {
		return " at the usual cost"
	}
	return " at " + times + " the usual cost"
}
