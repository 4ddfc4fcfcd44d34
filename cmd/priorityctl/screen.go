package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

// live looks again and again until the user quits.
func (t top) live(command *cobra.Command, interval time.Duration, o order) error {
	ctx, cancel := context.WithCancel(command.Context())
	defer cancel()
	options := []tea.ProgramOption{tea.WithOutput(command.OutOrStdout()), tea.WithoutSignalHandler()}
	if isTerminal(command.InOrStdin()) {
		options = append(options, tea.WithInput(command.InOrStdin()))
	} else {
		options = append(options, tea.WithInput(nil))
	}
	program := tea.NewProgram(screen{ctx: ctx, top: t, interval: interval, order: o, seen: look{inspector: &t.Inspector}}, options...)
	// Quit restores the terminal; tea.WithContext would rather kill.
	defer context.AfterFunc(command.Context(), program.Quit)()
	_, err := program.Run()
	if err := command.Context().Err(); err != nil {
		return err
	}
	return err
}

// screen is top on a terminal.
type screen struct {
	ctx           context.Context
	top           top
	interval      time.Duration
	width, height int

	order     order
	filtering bool           // the filter is being typed
	help      bool           // the keys are shown
	selected  string         // the customer that Enter looks up; empty: the first
	opened    *insight.Name  // the customer that is shown, in place of all
	customer  customerLooked // of opened
	seen      look
}

// customerLooked is what get says about a customer.
type customerLooked struct {
	insight.Name
	text   string
	failed error
}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return s.look }

// look looks once more. Only one is under way at a time.
func (s screen) look() tea.Msg {
	seen := s.top.again(s.ctx, s.seen)
	if s.ctx.Err() != nil {
		return nil
	}
	return seen
}

// lookUp looks the opened customer up.
func (s screen) lookUp() tea.Cmd {
	if s.opened == nil {
		return nil
	}
	ctx, inspector, name := s.ctx, s.seen.inspector, *s.opened
	return func() tea.Msg {
		found, err := inspector.Customer(ctx, name.Exact())
		looked := customerLooked{Name: name, failed: inspector.Hidden(err)}
		if err == nil {
			looked.text = found.String()
		}
		return looked
	}
}

// again is due when the next look is.
type again struct{}

// Update implements tea.Model.
func (s screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.KeyPressMsg:
		return s.pressed(message)
	case tea.WindowSizeMsg:
		s.width, s.height = message.Width, message.Height
	case look:
		s.seen = message
		return s, tea.Batch(s.lookUp(), tea.Tick(s.interval, func(time.Time) tea.Msg { return again{} }))
	case again:
		return s, s.look
	case customerLooked:
		s.customer = message
	}
	return s, nil
}

// keys are what the help shows.
const keys = `↑ ↓         select a customer
Enter       say why the customer has this level; Esc goes back
s           sort by the next column: documents, level, number, pending, oldest, name
/           show only customers with a text in their names; Enter keeps it, Esc ends it
?           this help; any key goes back
q, Ctrl-C   quit

BY COUNT, BY LOAD  documents that got the level in the last minute, by the rule, as
                   the workers report every five seconds; with overrides
MEDIAN, 95TH       how long documents of the level took from Submit to Done
OLDEST             age of the oldest pending document of a customer; for a level, of the
                   customers shown whose newest document has the level
LAST, NEXT         level of the customer's last document, and of one that arrives now`

// pressed does what a key stands for.
func (s screen) pressed(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return s, tea.Quit
	case name == "ctrl+z":
		return s, tea.Suspend
	case s.help:
		s.help = false
		return s, nil
	case s.filtering:
		return s.typed(key), nil
	}
	switch name {
	case "q":
		return s, tea.Quit
	case "?":
		s.help = true
	case "esc":
		if s.opened == nil {
			s.order.filter = ""
		}
		s.opened = nil
	case "/":
		s.filtering, s.opened = true, nil
	case "s":
		s.order = s.order.next()
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(+1)
	case "home", "g":
		s.move(-1 << 20)
	case "end", "G":
		s.move(1 << 20)
	case "enter":
		if shown, at := s.shown(); len(shown) > 0 && s.opened == nil {
			s.opened = &shown[at].Name
			return s, s.lookUp()
		}
	}
	return s, nil
}

// typed goes on with the filter.
func (s screen) typed(key tea.KeyPressMsg) screen {
	switch filter := []rune(s.order.filter); key.String() {
	case "enter":
		s.filtering = false
	case "esc":
		s.filtering, s.order.filter = false, ""
	case "backspace":
		s.order.filter = string(filter[:max(len(filter)-1, 0)])
	default:
		s.order.filter += key.Text
	}
	return s
}

// move selects another customer.
func (s *screen) move(by int) {
	if shown, at := s.shown(); len(shown) > 0 && s.opened == nil {
		s.selected = shown[min(max(at+by, 0), len(shown)-1)].Exact()
	}
}

// shown returns the customers to show, and the index of the selected one.
func (s screen) shown() (customers []insight.Busy, at int) {
	if s.seen.snapshot == nil {
		return nil, 0
	}
	customers = s.order.of(s.seen.snapshot.Busiest)
	at = slices.IndexFunc(customers, func(b insight.Busy) bool { return b.Exact() == s.selected })
	return customers, max(at, 0)
}

// View implements tea.Model.
func (s screen) View() tea.View {
	view := tea.NewView(s.text())
	view.AltScreen = true
	return view
}

func (s screen) text() string {
	if s.width <= 0 || s.seen.title == "" {
		return "looking …"
	}
	d := drawing{look: s.seen, live: true, width: s.width, height: s.height, footer: s.footer()}
	switch {
	case s.help:
		return d.fitted(strings.Split(keys, "\n"))
	case s.opened != nil:
		return d.fitted(append(d.head(), s.customerLines()...))
	}
	if s.seen.snapshot != nil {
		snapshot := *s.seen.snapshot
		snapshot.Busiest, d.selected = s.shown()
		d.snapshot = &snapshot
	}
	return d.text()
}

func (s screen) customerLines() []string {
	switch {
	case s.customer.Name != *s.opened:
		return []string{"", "looking …"}
	case s.customer.failed != nil:
		return append([]string{""}, strings.Split(insight.Wrap(insight.OneLine(s.customer.failed), 79), "\n")...)
	}
	return append([]string{""}, strings.Split(s.customer.text, "\n")...)
}

func (s screen) footer() string {
	switch {
	case s.help:
		return "any key: back"
	case s.filtering:
		return "/" + s.order.filter + "█"
	case s.opened != nil:
		return "Esc: back  q: quit  ?: help"
	}
	footer := fmt.Sprintf("q: quit  ?: help  Enter: why  s: sorted by %s  /: filter", s.order.by)
	if s.order.filter != "" {
		footer += " " + insight.Quoted(s.order.filter)
	}
	return footer
}

var _ tea.Model = screen{}
