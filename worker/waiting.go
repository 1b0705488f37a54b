package worker

import (
	"errors"
	"fmt"
	"time"
)

// waitingError makes asynq reschedule a task. asynq keeps it as the task's last error, so its text
// says what the task waits for.
type waitingError struct {
	turn  time.Time // zero: unknown
	back  time.Time // when the task should be in a worker again
	cause error     // nil: the turn is far away
}

func (e *waitingError) Error() string {
	switch {
	case e.turn.IsZero() && e.cause == nil:
		return "waiting for its turn"
	case e.cause != nil:
		return fmt.Sprintf("waiting for its turn; asks again at %s: %v", clock(e.back), e.cause)
	}
	return "waiting for its turn until " + clock(e.turn)
}

func (e *waitingError) Unwrap() error { return e.cause }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// IsWaiting reports whether an error of the Worker's middleware only means that the task is
// rescheduled to wait for its turn. Other middleware, such as metrics, can use it to tell waiting
// from failure.
func IsWaiting(err error) bool {
	var waiting *waitingError
	return errors.As(err, &waiting)
}
