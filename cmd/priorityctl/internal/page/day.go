package page

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// sample is what the fleet did in a minute.
type sample struct {
	at        time.Time
	Workers   int                         `json:"workers"`
	Documents map[priority.Level]int64    `json:"documents"`
	Waits     map[priority.Level][2]int64 `json:"waits,omitempty"` // the median and the 95th of 100, in milliseconds
}

const dayMinutes = 24 * 60

// sampleScript adds a sample, unless another page has added one in this minute of
// Redis's clock: an entry's id must be later than the one before it.
const sampleScript = `local id = math.floor(redis.call('TIME')[1] / 60) * 60000
redis.pcall('XADD', KEYS[1], 'MAXLEN', ARGV[2], string.format('%.0f-0', id), 's', ARGV[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])`

func (p *Page) dayKey() string { return p.own.Prefix + ":{fleet}:history" }

// KeepDay writes a sample of the workers' reports each minute, until ctx ends: the page
// draws the last day from them.
func (p *Page) KeepDay(ctx context.Context) {
	for every := time.Tick(time.Minute); ; {
		_ = p.addSample(ctx) // the page says why
		select {
		case <-every:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Page) addSample(ctx context.Context) error {
	found, err := p.own.Snapshot(ctx, 0)
	if err != nil || found.Workers == 0 {
		return err
	}
	s := sample{Workers: found.Workers, Documents: make(map[priority.Level]int64), Waits: make(map[priority.Level][2]int64)}
	for _, level := range found.Levels {
		if n := level.Documents(); n > 0 {
			s.Documents[level.Level] = n
		}
		if level.Done > 0 {
			s.Waits[level.Level] = [2]int64{level.MedianMS, level.P95MS}
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return p.own.Client.Eval(ctx, sampleScript, []string{p.dayKey()}, text, dayMinutes, (25 * time.Hour).Milliseconds()).Err()
}

// readDay returns the samples that there are. What is none is left out.
func (p *Page) readDay(ctx context.Context) (day []sample, err error) {
	entries, err := p.own.Client.XRevRangeN(ctx, p.dayKey(), "+", "-", dayMinutes).Result()
	for _, entry := range entries {
		var s sample
		text, _ := entry.Values["s"].(string)
		stamp, _, _ := strings.Cut(entry.ID, "-")
		ms, bad := strconv.ParseInt(stamp, 10, 64)
		if s.at = time.UnixMilli(ms); bad == nil && json.Unmarshal([]byte(text), &s) == nil {
			day = append(day, s)
		}
	}
	return day, err
}

// over divides the time until end into equal parts, and returns the greatest value of
// each, NaN for a part without samples.
func over(day []sample, end time.Time, span time.Duration, parts int, of func(sample) (float64, bool)) []float64 {
	values := slices.Repeat([]float64{math.NaN()}, parts)
	for _, s := range day {
		part := parts - 1 - int(math.Floor(float64(end.Sub(s.at))/float64(span)*float64(parts)))
		if value, ok := of(s); ok && part >= 0 && part < parts && !(values[part] > value) {
			values[part] = value
		}
	}
	return values
}

const (
	dayPoints = 240 // of six minutes each
	dayWidth  = 960
	dayHeight = 90
	mostMarks = 100
)

// dayPicture draws the last day. Its colours are the style sheet's.
type dayPicture struct {
	Title  string
	write  func(float64) string
	values []float64
	marks  []insight.Logged
	end    time.Time
}

// most returns the greatest value, 0 if there is none.
func (p dayPicture) most() (most float64) {
	for _, value := range p.values {
		if value > most {
			most = value
		}
	}
	return most
}

// Says is what the picture shows, in words.
func (p dayPicture) Says() string { return "at most " + p.write(p.most()) }

// Draw draws the picture, with a line where operators changed something.
func (p dayPicture) Draw() template.HTML {
	var marks strings.Builder
	for _, change := range p.marks[:min(len(p.marks), mostMarks)] {
		if ago := p.end.Sub(change.At); ago < 24*time.Hour {
			fmt.Fprintf(&marks, `<path class="mark" d="M%.1f 0V%d"><title>%s</title></path>`, dayWidth*(1-ago.Hours()/24), dayHeight,
				template.HTMLEscapeString(insight.Moment(change.At)+": "+change.Says+", by "+insight.Shown(change.By)))
		}
	}
	return template.HTML(fmt.Sprintf(`<svg class="day" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img"><title>%s</title>%s%s</svg>`,
		dayWidth, dayHeight, template.HTMLEscapeString(p.Title+": "+p.Says()), curve(p.values, p.most(), dayWidth, dayHeight), marks.String()))
}

// spark draws the values of the last hour, the latest at the right.
func spark(values []float64, title string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="spark" viewBox="0 0 120 24" preserveAspectRatio="none" role="img"><title>%s</title>%s</svg>`,
		template.HTMLEscapeString(title), curve(values, dayPicture{values: values}.most(), 120, 24)))
}

// bar draws a share of 1.
func bar(share float64) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="10"/><rect class="level" width="%.2f" height="10"/></svg>`,
		100*min(max(share, 0), 1)))
}

// curve draws values up to the greatest one. The line is broken where there is none.
func curve(values []float64, most, width, height float64) string {
	var path strings.Builder
	command := "M"
	for i, value := range values {
		if math.IsNaN(value) {
			command = "M"
			continue
		}
		x, y := width*float64(i)/float64(max(len(values)-1, 1)), height-1-(height-2)*value/max(most, 1)
		fmt.Fprintf(&path, "%s%.1f %.1f", command, x, y)
		if command == "M" {
			path.WriteString("h.1") // so that a value alone is seen
		}
		command = "L"
	}
	return fmt.Sprintf(`<path class="line" d="%s"/>`, path.String())
}
