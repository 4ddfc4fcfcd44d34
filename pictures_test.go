package priority_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/prioritytest"
)

var update = flag.Bool("update", false, "draw the pictures of docs/concepts.md anew")

// The pictures show what the module does. The vectors hold package memory, of which
// they are drawn, and the scripts to the same.
func TestThePicturesOfTheConceptsAreTrue(t *testing.T) {
	t.Parallel()
	for name, drawn := range map[string]string{
		"docs/rule.svg":    pictureOfTheRule(t),
		"docs/pending.svg": pictureOfPending(t),
		"docs/levels.svg":  pictureOfLevels(t),
	} {
		if *update {
			if err := os.WriteFile(name, []byte(drawn), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if held := string(must(os.ReadFile(name))(t)); held != drawn {
			t.Errorf("%s shows something else: go test . -run %s -update", name, t.Name())
		}
	}
}

// pictureOfTheRule has each document of a customer who pauses once.
func pictureOfTheRule(t *testing.T) string {
	t.Helper()
	const left, step, beforeThePause, afterwards = 88, 23, 24, 3
	clock := new(prioritytest.Clock)
	store := prioritytest.NewStore(clock, nil)
	y := func(level priority.Level) int { return 48 + 26*int(level) }
	var p picture
	for level := priority.First; level <= store.Last(); level++ {
		p.add(`<text class="end" x="72" y="%d">level %d</text><path class="line" d="M80 %dH728"/>`, y(level)+4, level, y(level))
	}
	p.add(`<text class="end" x="72" y="%d">count</text>`, y(10)+14)
	for i := range beforeThePause + afterwards {
		x := left + step*i
		if i == beforeThePause {
			clock.Advance(priority.DefaultPolicy().ResetInterval + time.Millisecond)
		}
		if i >= beforeThePause {
			x += 2 * step
		}
		decision := must(store.Next(t.Context(), "acme"))(t)
		p.add(`<rect class="one" x="%d" y="%d" width="17" height="17" rx="3"/><text class="small" x="%d" y="%d">%d</text>`,
			x-8, y(decision.Level)-8, x, y(10)+14, decision.Count)
	}
	x := left + step*beforeThePause + step/2
	p.add(`<path class="pause" d="M%d 60V%d"/>`, x, y(10)+18)
	p.add(`<text class="middle" x="%d" y="52">more than %.0f min without a document</text>`, x-60, priority.DefaultPolicy().ResetInterval.Minutes())
	return p.end("The rule: each document counts down, a pause begins afresh", y(10)+34)
}

// pictureOfPending has three customers' two levels, and the mean of them.
func pictureOfPending(t *testing.T) string {
	t.Helper()
	const lately, mean, now = 190, 390, 590
	scale := fair.ScaleOf(priority.DefaultPolicy().Thresholds)
	y := func(level float64) float64 { return 66 + 30*level }
	var p picture
	p.add(`<text class="middle" x="%d" y="60">submitted lately</text><text class="middle strong" x="%d" y="60">level</text>`+
		`<text class="middle" x="%d" y="60">pending × cost</text>`, lately, mean, now)
	for _, x := range []int{lately, mean, now} {
		p.add(`<path class="line" d="M%d %.0fV%.0f"/>`, x, y(0.6), y(9.4))
	}
	for level := range scale.Last() {
		at := y(float64(level+1)) + 4
		p.add(`<text class="end" x="%d" y="%.0f">%s</text>`, lately-16, at, upTo(scale.Last(), level+1, func(n int64) int {
			part, _ := scale.Parts(float64(n), 1, 1000)
			return part
		}))
		p.add(`<text x="%d" y="%.0f">%s</text>`, now+16, at, upTo(scale.Last(), level+1, func(n int64) int {
			_, part := scale.Parts(1, n, 1000)
			return part
		}))
		p.add(`<text class="strong" x="%d" y="%.0f">%d</text>`, mean+12, at+8, level+1)
	}
	for i, customer := range []struct {
		who                string
		submitted, pending int64
	}{
		{"sends now and then", 1, 1},
		{"sends all day, and never much at once", 400, 3},
		{"sends a thousand documents at once", 1000, 1000},
	} {
		left, right := scale.Parts(float64(customer.submitted), customer.pending, 1000)
		level, _ := scale.Level(float64(customer.submitted), customer.pending, 1000)
		class := [...]string{"one", "two", "three"}[i]
		p.add(`<path class="way %s" d="M%d %.0fL%d %.0f"/>`, class, lately, y(float64(left)), now, y(float64(right)))
		p.add(`<circle class="%s" cx="%d" cy="%.0f" r="6"/>`, class, mean, y(float64(level)))
		below := y(10) + 16 + 22*float64(i)
		p.add(`<circle class="%s" cx="150" cy="%.0f" r="6"/><text x="164" y="%.0f">%s: %d submitted, %d pending: level %d</text>`,
			class, below-4, below, customer.who, customer.submitted, customer.pending, level)
	}
	return p.end("Submit: a level is the mean of two, rounded up", int(y(10))+74)
}

// upTo says how much has one of the levels.
func upTo(last, level int, levelOf func(n int64) int) string {
	n := int64(1)
	for levelOf(n+1) <= level && n < 1<<20 {
		n++
	}
	if level == last {
		for n = 1; levelOf(n) < level; n++ {
		}
		return fmt.Sprintf("more than %d", n-1)
	}
	return fmt.Sprintf("up to %d", n)
}

// pictureOfLevels has some documents as they arrive, and as a worker takes them.
func pictureOfLevels(t *testing.T) string {
	t.Helper()
	const left, step, arrive, served = 112, 50, 84, 204
	classOf := map[string]string{"archive": "three", "bakery": "one", "clinic": "two"}
	type document struct {
		class   string
		level   priority.Level
		arrived int
	}
	var documents []document
	store := new(memory.Store)
	for i, customer := range strings.Fields("archive archive archive archive archive archive archive bakery archive archive clinic bakery") {
		decision := must(store.Submit(t.Context(), customer, fmt.Sprint(i)))(t)
		documents = append(documents, document{classOf[customer], decision.Level, i})
	}
	var p picture
	p.add(`<text class="end" x="76" y="%d">arrive</text><text class="end" x="76" y="%d">are taken</text>`, arrive+5, served+5)
	order := slices.Clone(documents)
	slices.SortStableFunc(order, func(a, b document) int { return cmp.Compare(a.level, b.level) })
	for i, d := range order {
		p.add(`<path class="way %s" d="M%d %dL%d %d"/>`, d.class, left+step*d.arrived, arrive, left+step*i, served)
	}
	row := func(documents []document, y int) {
		for i, d := range documents {
			p.add(`<circle class="%s" cx="%d" cy="%d" r="17"/><text class="on" x="%d" y="%d">%d</text>`,
				d.class, left+step*i, y, left+step*i, y+5, d.level)
		}
	}
	row(documents, arrive)
	row(order, served)
	for i, customer := range []string{"archive", "bakery", "clinic"} {
		x := left + 110*i
		p.add(`<circle class="%s" cx="%d" cy="256" r="6"/><text x="%d" y="260">%s</text>`,
			classOf[customer], x, x+14, customer)
	}
	p.add(`<text x="%d" y="260">the figure is the level</text>`, left+330)
	return p.end("Levels: a queue takes level 1 first, and within a level what came first", 280)
}

// picture is an SVG that is legible on light and on dark paper.
type picture struct{ lines []string }

func (p *picture) add(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

func (p *picture) end(title string, height int) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 %[2]d" width="760" height="%[2]d" role="img">
<title>%[1]s</title>
<style>
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .strong { font-weight: 600 }
  .small { font-size: 11px; text-anchor: middle }
  .middle, .on { text-anchor: middle }
  .end { text-anchor: end }
  .paper { fill: #ffffff }
  .line { stroke: #d0d7de; fill: none }
  .pause { stroke: #1f2328; stroke-dasharray: 4 4; fill: none }
  .one { fill: #2f6fde; stroke: #2f6fde }
  .two { fill: #1b7f4d; stroke: #1b7f4d }
  .three { fill: #8a5a00; stroke: #8a5a00 }
  .way { fill: none; stroke-width: 2 }
  .on { fill: #ffffff; stroke: none; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .paper { fill: #0d1117 }
    .line { stroke: #3d444d }
    .pause { stroke: #e6edf3 }
    .one { fill: #79a8ff; stroke: #79a8ff }
    .two { fill: #4cc38a; stroke: #4cc38a }
    .three { fill: #e0a84a; stroke: #e0a84a }
    .way { fill: none }
    .on { fill: #0d1117; stroke: none }
  }
</style>
<rect class="paper" width="760" height="%[2]d"/>
<text class="title" x="16" y="28">%[1]s</text>
%[3]s
</svg>
`, title, height, strings.Join(p.lines, "\n"))
}
