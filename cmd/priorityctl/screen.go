package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/docpriority/priority"
	"github.com/spf13/cobra"
)

// live shows pass after pass until the user ends it.
func (t *tally) live(command *cobra.Command, interval time.Duration) error {
	ctx, cancel := context.WithCancel(command.Context())
	defer cancel()
	options := []tea.ProgramOption{tea.WithOutput(command.OutOrStdout()), tea.WithoutSignalHandler()}
	if isTerminal(command.InOrStdin()) {
		options = append(options, tea.WithInput(command.InOrStdin()))
	} else {
		options = append(options, tea.WithInput(nil))
	}
	program := tea.NewProgram(screen{ctx: ctx, tally: t, interval: interval, live: true}, options...)
	// Quit restores the terminal; tea.WithContext would rather kill.
	defer context.AfterFunc(command.Context(), program.Quit)()
	_, err := program.Run()
	if err := command.Context().Err(); err != nil {
		return err
	}
	return err
}

// screen is what top shows of a tally.
type screen struct {
	ctx           context.Context
	tally         *tally
	interval      time.Duration
	live          bool
	width, height int

	// What is drawn is made between two steps, never during one.
	content stepped
	failed  error
}

// stepped draws the tally as it was when a step ended.
type stepped func(width, height int) string

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return s.step }

// step goes on with the pass until it is done, but for a second at most, so that
// the screen shows how far it is.
func (s screen) step() tea.Msg {
	_, err := s.tally.advance(s.ctx, time.Now().Add(min(s.interval, time.Second)))
	if s.ctx.Err() != nil {
		return nil
	}
	return s.draw(err)
}

func (s screen) draw(failed error) tea.Msg {
	snapshot := *s.tally // the next step replaces its slices and maps, and changes none
	return stepped(func(width, height int) string {
		return screen{tally: &snapshot, live: true, width: width, height: height, failed: failed}.text()
	})
}

// Update implements tea.Model.
func (s screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.KeyPressMsg:
		switch message.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		case "ctrl+z":
			return s, tea.Suspend
		}
	case tea.WindowSizeMsg:
		s.width, s.height = message.Width, message.Height
	case stepped:
		s.content = message
		if s.tally.walk != nil {
			return s, s.step
		}
		return s, tea.Tick(s.interval, func(time.Time) tea.Msg { return s.step() })
	}
	return s, nil
}

// View implements tea.Model.
func (s screen) View() tea.View {
	text := "looking …"
	if s.content != nil && s.width > 0 {
		text = s.content(s.width, s.height)
	}
	view := tea.NewView(text)
	view.AltScreen = true
	return view
}

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	cyan   = "\x1b[36m"
	normal = "\x1b[m"
)

// text draws the tally. On a terminal it has exactly as many lines as that, in
// its width.
func (s screen) text() string {
	t := s.tally
	lines := []string{s.styled(bold, t.title()), t.status()}
	if s.failed != nil {
		err := t.connection.hidden(s.failed)
		lines[1] = s.styled(red, "looking again: "+oneLine(err))
	}
	if !t.last.At.IsZero() {
		lines = append(lines, "")
		lines = append(lines, s.levels()...)
		lines = append(lines, "")
		lines = append(lines, s.busiest(s.height-len(lines)-1)...)
	}
	if !s.live {
		return strings.Join(lines, "\n") + "\n"
	}
	lines = lines[:min(len(lines), max(s.height-1, 1))]
	for len(lines) < s.height-1 {
		lines = append(lines, "")
	}
	if s.height > 1 {
		lines = append(lines, "q: quit")
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, s.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (s screen) styled(style, text string) string {
	if !s.live {
		return text
	}
	return style + text + normal
}

// levels draws a line for each level; where the screen is too low for all, for
// each that has customers, as far as half the screen goes.
func (s screen) levels() []string {
	t := s.tally
	lines := []string{s.styled(bold, "LEVEL  CUSTOMERS  DOCUMENTS")}
	most := int64(1)
	for _, n := range t.last.Documents {
		most = max(most, n)
	}
	room := len(t.last.Customers)
	if s.live {
		room = min(room, max(s.height/2, 1))
	}
	all := room == len(t.last.Customers)
	left := 0
	for i, customers := range t.last.Customers {
		if !all && customers == 0 {
			continue
		}
		if len(lines) > room {
			left++
			continue
		}
		documents := t.last.Documents[i]
		line := fmt.Sprintf("%5d  %9s  %9s", priority.First+priority.Level(i), group(customers), group(documents))
		if cells := int64(s.width - len(line) - 3); cells > 3 && documents > 0 {
			line += "  " + s.styled(cyan, strings.Repeat("█", int(max(cells*documents/most, 1))))
		}
		lines = append(lines, line)
	}
	if left > 0 {
		lines[len(lines)-1] = fmt.Sprintf("       … %d levels more", left+1)
	}
	return lines
}

// busiest draws the busiest customers, in at most so many lines on a terminal.
func (s screen) busiest(room int) []string {
	narrow := s.width < 60
	heading := "LEVEL       COUNT  DOCUMENTS   RESETS IN  CUSTOMER"
	if narrow {
		heading = "LEVEL  DOCUMENTS  CUSTOMER"
	}
	lines := []string{s.styled(bold, heading)}
	for _, b := range s.tally.last.Busiest {
		if s.live && len(lines) >= room {
			break
		}
		resets := "never"
		if b.ResetIn > 0 {
			resets = span(b.ResetIn)
		}
		line := fmt.Sprintf("%5d  %10s  %9s  %10s  %s", b.Level, group(b.Count), group(b.Documents), resets, shown(b.Customer))
		if narrow {
			line = fmt.Sprintf("%5d  %9s  %s", b.Level, group(b.Documents), shown(b.Customer))
		}
		lines = append(lines, line)
	}
	return lines
}

var _ tea.Model = screen{}
