package worker

import (
	"errors"
	"fmt"
	"time"
)

// waitingError puts a task back. It is what asynq keeps as the task's last
// error, so its text says what the task does and not what went wrong.
type waitingError struct {
	turn  time.Time // zero: not known
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

// IsWaiting reports whether an error of the Worker's middleware only says that
// the task goes back to wait for its turn. Middleware around it, such as metrics,
// can tell it from a failure by this.
func IsWaiting(err error) bool {
	var waiting *waitingError
	return errors.As(err, &waiting)
}
