package main

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
)

// live shows pass after pass until the user ends it.
func (t top) live(command *cobra.Command, interval time.Duration) error {
	ctx, cancel := context.WithCancel(command.Context())
	defer cancel()
	options := []tea.ProgramOption{tea.WithOutput(command.OutOrStdout()), tea.WithoutSignalHandler()}
	if isTerminal(command.InOrStdin()) {
		options = append(options, tea.WithInput(command.InOrStdin()))
	} else {
		options = append(options, tea.WithInput(nil))
	}
	program := tea.NewProgram(screen{ctx: ctx, top: t, interval: interval}, options...)
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
	drawing       *drawing // made between two steps, never during one; nil: none yet
}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return s.step }

// step goes on with the pass until it is done, but for a second at most, so that
// the screen shows how far it is.
func (s screen) step() tea.Msg {
	err := s.top.advance(s.ctx, time.Now().Add(min(s.interval, time.Second)))
	if s.ctx.Err() != nil {
		return nil
	}
	drawing := s.top.drawing()
	drawing.live, drawing.failed = true, s.top.Hidden(err)
	return drawing
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
	case drawing:
		s.drawing = &message
		if message.midway {
			return s, s.step
		}
		return s, tea.Tick(s.interval, func(time.Time) tea.Msg { return s.step() })
	}
	return s, nil
}

// View implements tea.Model.
func (s screen) View() tea.View {
	text := "looking …"
	if s.drawing != nil && s.width > 0 {
		drawing := *s.drawing
		drawing.width, drawing.height = s.width, s.height
		text = drawing.text()
	}
	view := tea.NewView(text)
	view.AltScreen = true
	return view
}

var _ tea.Model = screen{}
