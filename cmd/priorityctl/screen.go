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
func live(command *cobra.Command, inspector *insight.Inspector, interval time.Duration, o order) error {
	ctx, cancel := context.WithCancel(command.Context())
	defer cancel()
	options := []tea.ProgramOption{tea.WithOutput(command.OutOrStdout()), tea.WithoutSignalHandler()}
	if isTerminal(command.InOrStdin()) {
		options = append(options, tea.WithInput(command.InOrStdin()))
	} else {
		options = append(options, tea.WithInput(nil))
	}
	program := tea.NewProgram(screen{ctx: ctx, inspector: inspector, interval: interval, order: o}, options...)
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
	inspector     *insight.Inspector
	interval      time.Duration
	width, height int

	order     order
	filtering bool           // the filter is being typed
	help      bool           // the keys are shown
	scrolled  int            // lines of the help or of the customer
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
	seen := again(s.ctx, s.inspector, s.seen)
	if s.ctx.Err() != nil {
		return nil
	}
	return seen
}

// lookUp looks the opened customer up.
func (s screen) lookUp() tea.Cmd {
	if s.opened == nil || s.seen.snapshot == nil {
		return nil
	}
	ctx, snapshot, name := s.ctx, s.seen.snapshot, *s.opened
	return func() tea.Msg {
		found, err := snapshot.Customer(ctx, name.Exact())
		looked := customerLooked{Name: name, failed: snapshot.Hidden(err)}
		if err == nil {
			looked.text = found.String()
		}
		return looked
	}
}

// due is when the next look is.
type due struct{}

// Update implements tea.Model.
func (s screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.KeyPressMsg:
		return s.pressed(message)
	case tea.WindowSizeMsg:
		s.width, s.height = message.Width, message.Height
	case look:
		s.seen = message
		return s, tea.Batch(s.lookUp(), tea.Tick(s.interval, func(time.Time) tea.Msg { return due{} }))
	case due:
		return s, s.look
	case customerLooked:
		s.customer = message
	}
	return s, nil
}

// keys are what the help shows.
const keys = `↑ ↓        select a customer, or scroll a text
Enter      say why the customer has this level; Esc goes back
s          sort by documents, level, number, pending, oldest or name, in turn
/          only customers with a text in their names; Enter keeps it, Esc ends it
?          this help; Esc goes back
q, Ctrl-C  quit

DOCS, BY COUNT, BY LOAD  documents that got the level in the last minute, by the
                   rule, as workers report every five seconds; with overrides
PENDING, OLDEST    what waits at the level, of the customers that reports name
MEDIAN, 95TH       how long documents of the level took from Submit to Done
LAST, NEXT         level of the customer's last document, and of one that
                   arrives now`

// pressed does what a key stands for.
func (s screen) pressed(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return s, tea.Quit
	case name == "ctrl+z":
		return s, tea.Suspend
	case s.filtering:
		return s.typed(key), nil
	}
	switch name {
	case "q":
		return s, tea.Quit
	case "?":
		s.help, s.scrolled = !s.help, 0
	case "esc":
		if s.opened == nil && !s.help {
			s.order.filter = ""
		}
		s.opened, s.help, s.scrolled = nil, false, 0
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
			s.opened, s.help, s.scrolled = &shown[at].Name, false, 0
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

// move selects another customer, or scrolls the text that is shown.
func (s *screen) move(by int) {
	if s.help || s.opened != nil {
		s.scrolled = max(min(s.scrolled+by, len(s.page())-1), 0)
	} else if shown, at := s.shown(); len(shown) > 0 {
		s.selected = shown[min(max(at+by, 0), len(shown)-1)].Exact()
	}
}

// shown returns the customers to show, and the index of the selected one.
func (s screen) shown() (customers []insight.Busy, at int) {
	if s.seen.top == nil {
		return nil, 0
	}
	customers = s.order.of(s.seen.top.Busiest)
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
	if s.width <= 0 || s.seen.snapshot == nil && s.seen.failed == nil {
		return "looking …"
	}
	d := drawing{look: s.seen, live: true, width: s.width, height: s.height, footer: s.footer()}
	if s.help || s.opened != nil {
		page := s.page() // which may be shorter than when it was scrolled
		return d.fitted(page[min(s.scrolled, len(page)-1):])
	}
	if s.seen.top != nil {
		top := *s.seen.top
		top.Busiest, d.selected = s.shown()
		d.top = &top
	}
	return d.text()
}

// page returns the lines of the help, or of the opened customer.
func (s screen) page() []string {
	text := s.customer.text
	switch {
	case s.help:
		text = keys
	case s.customer.Name != *s.opened:
		text = "looking …"
	case s.customer.failed != nil:
		text = insight.Wrap(insight.OneLine(s.customer.failed), 79)
	}
	return strings.Split(text, "\n")
}

func (s screen) footer() string {
	switch {
	case s.help:
		return "Esc: back  ↑ ↓: scroll  q: quit"
	case s.filtering:
		return "/" + s.order.filter + "█"
	case s.opened != nil:
		return "Esc: back  ↑ ↓: scroll  q: quit  ?: help"
	}
	footer := fmt.Sprintf("q: quit  ?: help  Enter: why  s: sorted by %s  /: filter", s.order.by)
	if s.order.filter != "" {
		footer += " " + insight.Quoted(s.order.filter)
	}
	return footer
}

var _ tea.Model = screen{}
