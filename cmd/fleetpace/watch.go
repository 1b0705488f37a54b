package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

func (a *app) watch() *cobra.Command {
	var every time.Duration
	c := &cobra.Command{
		Use: "watch", Short: "Show the limits as they change", Long: "Shows the limits as they change; q ends it. Without a terminal it prints lists.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usageError{fmt.Errorf("--every: must be at least 100ms, got %v", every)}
			}
			if f, ok := a.out.(*os.File); !ok || a.format == "json" || !isatty.IsTerminal(f.Fd()) || os.Getenv("TERM") == "dumb" {
				return a.watchPlain(cmd.Context(), every)
			}
			return a.watchFull(cmd.Context(), every)
		},
	}
	c.Flags().DurationVar(&every, "every", time.Second, "`time` between two updates")
	return c
}

// watchPlain prints a list at each update, until the context ends.
func (a *app) watchPlain(ctx context.Context, every time.Duration) error {
	var rates fleet.Rates
	for {
		lines, err := a.fleet.Lines(ctx, keysOfLine, &rates)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			fmt.Fprintln(a.errs, "fleetpace: Redis does not answer:", err)
		case a.format == "json":
			err = a.json(lines)
		default:
			fmt.Fprintln(a.out, time.Now().Format(time.TimeOnly))
			err = table(a.out, listing(lines, true))
		}
		if err != nil && a.format == "json" {
			return err
		}
		if !rest(ctx, every) {
			return nil
		}
	}
}

// screen is what the full-screen watch shows.
type screen struct {
	ctx    context.Context
	app    *app
	every  time.Duration
	rates  *fleet.Rates
	lines  []fleet.Line
	at     time.Time
	err    error
	width  int
	height int
}

// seen is one reading of the fleet's state.
type seen struct {
	lines []fleet.Line
	err   error
}

func (a *app) watchFull(ctx context.Context, every time.Duration) error {
	s := screen{ctx: ctx, app: a, every: every, rates: &fleet.Rates{}}
	_, err := tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(a.in), tea.WithOutput(a.out)).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s screen) look() tea.Msg {
	lines, err := s.app.fleet.Lines(s.ctx, keysOfLine, s.rates)
	return seen{lines: lines, err: err}
}

// Init starts the first reading.
func (s screen) Init() tea.Cmd { return s.look }

type again struct{}

// Update handles keys, sizes and readings.
func (s screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.KeyPressMsg:
		if k := m.String(); k == "q" || k == "ctrl+c" || k == "esc" {
			return s, tea.Quit
		}
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case seen:
		if s.err = m.err; m.err == nil {
			s.lines, s.at = m.lines, time.Now()
		}
		return s, tea.Tick(s.every, func(time.Time) tea.Msg { return again{} })
	case again:
		return s, s.look
	}
	return s, nil
}

// View returns the screen, which takes the whole terminal.
func (s screen) View() tea.View {
	view := tea.NewView(s.text())
	view.AltScreen = true
	return view
}

func (s screen) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "fleetpace  %s  limits: %d  (q ends)\n\n", s.at.Format(time.TimeOnly), len(s.lines))
	if s.err != nil {
		fmt.Fprintf(&b, "Redis does not answer: %s\nThe list below is from %s.\n\n", plain(s.err.Error()), s.at.Format(time.TimeOnly))
	}
	_ = table(&b, listing(s.lines, true))
	lines := strings.Split(b.String(), "\n")
	if s.height > 1 && len(lines) > s.height-1 {
		hidden := len(lines) - (s.height - 2)
		lines = append(lines[:s.height-2], fmt.Sprintf("and %d more", hidden))
	}
	for i, l := range lines {
		if r := []rune(l); s.width > 0 && len(r) > s.width {
			lines[i] = string(r[:s.width-1]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}
