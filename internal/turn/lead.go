package turn

import "time"

const (
	// PollInterval is how often a worker looks for tasks, unless the user sets another interval.
	// With asynq's own 1 s and 5 s, tasks would wait in their workers for that long. With this one,
	// an idle server makes about 30 script calls per second and queue: 20 to forward tasks, and 10
	// to take one.
	PollInterval = 100 * time.Millisecond

	// margin allows for the time that a task takes through Redis, and for small differences of the
	// workers' clocks.
	margin = 100 * time.Millisecond

	// floor is by how much earlier a task may come back: asynq keeps the moment of a delayed task
	// in whole seconds, rounded down.
	floor = time.Second
)

// Lead is how long before its turn a task must be due in asynq to be in its worker in time. The
// forwarder needs up to delayedCheck to find it. The processor needs up to taskCheck/2 and a jitter
// of up to taskCheck. The limiter needs the task `limiter` before its turn.
func Lead(delayedCheck, taskCheck, limiter time.Duration) time.Duration {
	return delayedCheck + taskCheck*3/2 + limiter + margin
}

// Patience is how far away a turn may be for a task to wait for it in its worker. A task that comes
// back in time waits for at most this long, so it is rescheduled only once.
func Patience(lead time.Duration) time.Duration { return lead + floor + margin }
