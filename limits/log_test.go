package limits_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// log keeps what is logged, as lines.
type log struct {
	Logger *slog.Logger

	mu   sync.Mutex
	said []string
}

func newLog() *log {
	l := &log{}
	l.Logger = slog.New(l)
	return l
}

func (l *log) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}

func (l *log) Enabled(context.Context, slog.Level) bool { return true }
func (l *log) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *log) WithGroup(string) slog.Handler            { return l }

func (l *log) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, line)
	return nil
}
