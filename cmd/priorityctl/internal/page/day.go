package page

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
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
	Workers   int   `json:"workers"`
	Documents int64 `json:"documents"`
	FirstMS   int64 `json:"first_ms,omitempty"` // how long 95 of 100 documents of level 1 waited at most; 0: not known
}

const dayMinutes = 24 * 60

// sampleScript adds a sample, unless another page has added one in this minute of
// Redis's clock: an entry's id must be later than the one before it.
const sampleScript = `local id = math.floor(redis.call('TIME')[1] / 60) * 60000
redis.pcall('XADD', KEYS[1], 'MAXLEN', ARGV[2], string.format('%.0f-0', id), 's', ARGV[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])`

func (p *Page) dayKey() string { return p.inspector.Prefix + ":{fleet}:history" }

// KeepDay writes a sample of the workers' reports each minute, until ctx ends: the page
// draws the last day from them.
func (p *Page) KeepDay(ctx context.Context) {
	for every := time.Tick(time.Minute); ; {
		_ = p.addSample(ctx) // if it fails, the picture has a gap
		select {
		case <-every:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Page) addSample(ctx context.Context) error {
	found, err := p.look(ctx)
	if err != nil || found.Totals.Reports == 0 {
		return err
	}
	waits := found.Totals.Waits[priority.First]
	text, _ := json.Marshal(sample{Workers: found.Totals.Reports, Documents: found.Totals.Documents(), FirstMS: waits.P95().Milliseconds()})
	return p.inspector.Client.Eval(ctx, sampleScript, []string{p.dayKey()}, text, dayMinutes, (25 * time.Hour).Milliseconds()).Err()
}

// readDay returns the samples that there are, the newest first.
func (p *Page) readDay(ctx context.Context) (day []sample, err error) {
	entries, err := p.inspector.Client.XRevRangeN(ctx, p.dayKey(), "+", "-", dayMinutes).Result()
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

const (
	dayPoints = 240 // at most
	dayWidth  = 960
	dayHeight = 90
	mostMarks = 100
)

// dayView shows the last day, or the last hours while there is no more.
type dayView struct {
	Title    string
	Span     time.Duration
	Pictures []dayPicture
}

// dayPicture is a curve. Its colours are the style sheet's.
type dayPicture struct {
	Title, Most string
	Drawing     template.HTML
}

func (l *look) dayView() *dayView {
	if len(l.day) == 0 {
		return nil
	}
	view, oldest := dayView{Title: "The last hour", Span: time.Hour}, l.Now.Sub(l.day[len(l.day)-1].at)
	for _, longer := range []dayView{{Title: "The last six hours", Span: 6 * time.Hour}, {Title: "The last day", Span: 24 * time.Hour}} {
		if oldest > view.Span {
			view = longer
		}
	}
	view.add(l, "Documents a minute", func(s sample) int64 { return s.Documents }, insight.Group)
	view.add(l, "Wait of level 1, 95 of 100 documents", func(s sample) int64 { return s.FirstMS },
		func(ms int64) string { return insight.About(time.Duration(ms) * time.Millisecond) })
	return &view
}

// add draws the greatest value of each of equal parts of the time, with a line where operators
// changed something. The curve is broken where there is no sample.
func (view *dayView) add(l *look, title string, of func(sample) int64, write func(int64) string) {
	points := min(dayPoints, int(view.Span.Minutes())) // there is a sample a minute
	values, most := slices.Repeat([]int64{-1}, points), int64(0)
	for _, s := range l.day {
		if part := points - 1 - int(float64(points)*float64(l.Now.Sub(s.at))/float64(view.Span)); part >= 0 && part < points {
			values[part] = max(values[part], of(s))
			most = max(most, of(s))
		}
	}
	var curve, marks strings.Builder
	command, width := "M", float64(dayWidth)/float64(points)
	for i, value := range values {
		if value < 0 {
			command = "M"
			continue
		}
		fmt.Fprintf(&curve, "%s%.1f %.1fh%.1f", command, width*float64(i), dayHeight-1-(dayHeight-2)*float64(value)/float64(max(most, 1)), width)
		command = "L"
	}
	for _, change := range l.Changes[:min(len(l.Changes), mostMarks)] {
		if ago := l.Now.Sub(change.At); ago < view.Span {
			fmt.Fprintf(&marks, `<path class="mark" d="M%.1f 0V%d"><title>%s</title></path>`, dayWidth*(1-float64(ago)/float64(view.Span)), dayHeight,
				template.HTMLEscapeString(insight.Moment(change.At)+": "+change.Says+", by "+insight.Shown(change.By)))
		}
	}
	drawing := fmt.Sprintf(`<svg class="day" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img"><title>%s: at most %s</title><path class="line" d="%s"/>%s</svg>`,
		dayWidth, dayHeight, title, write(most), curve.String(), marks.String())
	view.Pictures = append(view.Pictures, dayPicture{title, write(most), template.HTML(drawing)})
}
