package example

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// AsynqLog passes on warnings and errors of asynq, at most one every few seconds: while Redis is
// unreachable, asynq logs one for every task.
type AsynqLog struct {
	note      func(text string)
	fatal     func(err error)
	sometimes *rate.Sometimes
}

// NewAsynqLog returns a logger for asynq's configuration.
func NewAsynqLog(note func(text string), fatal func(err error)) AsynqLog {
	return AsynqLog{note, fatal, &rate.Sometimes{Interval: 5 * time.Second}}
}

// Debug discards a line.
func (AsynqLog) Debug(...any) {}

// Info discards a line.
func (AsynqLog) Info(...any) {}

// Warn passes on a line.
func (l AsynqLog) Warn(a ...any) { l.pass(fmt.Sprint(a...)) }

// Error passes on a line.
func (l AsynqLog) Error(a ...any) { l.pass(fmt.Sprint(a...)) }

// Fatal passes on a line, and ends the process.
func (l AsynqLog) Fatal(a ...any) { l.fatal(errors.New("asynq: " + fmt.Sprint(a...))); os.Exit(1) }

func (l AsynqLog) pass(text string) {
	if strings.HasPrefix(text, "recoverer:") && strings.HasSuffix(text, "NOT FOUND") {
		return // another worker has already recovered the task
	}
	l.sometimes.Do(func() { l.note("asynq: " + text[:min(len(text), 200)]) })
}
