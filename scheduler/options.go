package scheduler

import (
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

// choice is what the options of a task mean to asynq.
type choice struct {
	queue     string
	taskID    string
	own       bool // the user chose the task ID, so another task may have it
	timeout   time.Duration
	deadline  time.Time // zero: no deadline
	notBefore time.Time // zero: at once
	unique    time.Duration
	passedOn  []asynq.Option
}

func read(options []asynq.Option) (choice, error) {
	c := choice{queue: "default"}
	for _, option := range options {
		if option == nil {
			continue
		}
		if err := c.read(option); err != nil {
			return choice{}, err
		}
	}
	if c.taskID == "" {
		c.taskID = uuid.NewString()
	}
	return c, nil
}

func (c *choice) read(option asynq.Option) (err error) {
	switch option.Type() {
	case asynq.QueueOpt:
		c.queue, err = text(option)
	case asynq.TaskIDOpt:
		c.own = true
		c.taskID, err = text(option)
	case asynq.TimeoutOpt:
		c.timeout, err = value[time.Duration](option)
		c.passedOn = append(c.passedOn, option)
	case asynq.DeadlineOpt:
		c.deadline, err = value[time.Time](option)
		c.deadline = c.deadline.Truncate(time.Second) // as asynq stores it
		c.passedOn = append(c.passedOn, option)
		if c.deadline.Unix() == 0 { // asynq stores no deadline as 0
			c.deadline = time.Time{}
		}
	case asynq.ProcessAtOpt:
		c.notBefore, err = value[time.Time](option)
	case asynq.ProcessInOpt:
		var in time.Duration
		in, err = value[time.Duration](option)
		c.notBefore = time.Now().Add(in)
	case asynq.UniqueOpt:
		if c.unique, err = value[time.Duration](option); err == nil && c.unique < time.Second {
			err = invalid("option", "%v: the TTL must be at least 1s", option)
		}
	case asynq.MaxRetryOpt, asynq.RetentionOpt:
		c.passedOn = append(c.passedOn, option)
	case asynq.GroupOpt:
		err = invalid("option", "%v: asynq merges the tasks of a group into new tasks, which have no turn, so leave it out", option)
	default:
		err = invalid("option", "%v: its effect on the turn of a task is unknown, so leave it out", option)
	}
	return err
}

func value[T any](option asynq.Option) (T, error) {
	v, ok := option.Value().(T)
	if !ok {
		return v, invalid("option", "%v: its value must be a %T, got a %T", option, v, option.Value())
	}
	return v, nil
}

func text(option asynq.Option) (string, error) {
	s, err := value[string](option)
	if err == nil && strings.TrimSpace(s) == "" {
		err = invalid("option", "%v: must not be empty", option)
	}
	return s, err
}

// check refuses options that cannot work, before anything is booked.
func (c *choice) check(lead time.Duration) error {
	patience := turn.Patience(lead)
	if c.timeout != 0 && c.timeout.Truncate(time.Second) < patience {
		return invalid("option", "Timeout(%v): asynq counts it from the moment at which a task comes up, in whole seconds, and the task"+
			" may sleep for %v until its turn: add that to what the handler needs", c.timeout, patience)
	}
	if !c.notBefore.After(time.Now()) {
		c.notBefore = time.Time{}
	}
	earliest := c.notBefore
	if earliest.IsZero() {
		earliest = time.Now()
	}
	if !c.deadline.IsZero() && !c.deadline.After(earliest) {
		return &past{c.deadline}
	}
	return nil
}

// past is the ErrWouldMissDeadline of a deadline that no turn can meet.
type past struct{ deadline time.Time }

func (p *past) Error() string {
	return "the Deadline, " + p.deadline.Format(time.RFC3339) + ", ends before the task may run: " +
		reserve.ErrWouldMissDeadline.Error()
}
func (p *past) Unwrap() error { return reserve.ErrWouldMissDeadline }

// at returns the options for a task that comes up at a moment.
func (c *choice) at(moment time.Time, lead time.Duration) []asynq.Option {
	options := append([]asynq.Option(nil), c.passedOn...)
	options = append(options, asynq.Queue(c.queue), asynq.TaskID(c.taskID), asynq.ProcessAt(moment))
	if c.unique > 0 {
		options = append(options, asynq.Unique(c.unique+turn.Patience(lead)))
	}
	return options
}

// wholeSecond rounds up: asynq would round down and begin too early.
func wholeSecond(t time.Time) time.Time {
	return t.Add(time.Second - time.Nanosecond).Truncate(time.Second)
}
