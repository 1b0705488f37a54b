package turn

import "time"

const (
	// PollInterval is how often a worker looks for tasks where the user did not
	// say: asynq's own 1 s and 5 s would make tasks wait in their workers for
	// that long. At this one a server makes about 30 script calls per second and
	// queue when it is idle: 20 to forward tasks, and 10 to take one.
	PollInterval = 100 * time.Millisecond

	// margin is for the way of a task through Redis and for clocks of workers
	// that differ a little.
	margin = 100 * time.Millisecond

	// floor is by how much more a task may come back early: asynq keeps the
	// moment of a delayed task in whole seconds, rounded down.
	floor = time.Second
)

// Lead is how long before its turn a task must be due in asynq to be in its
// worker in time: the forwarder finds it at its next look (delayedCheck), the
// processor at its next one (taskCheck/2 plus a jitter of up to taskCheck), and
// the limiter wants it back `limiter` before its turn.
func Lead(delayedCheck, taskCheck, limiter time.Duration) time.Duration {
	return delayedCheck + taskCheck*3/2 + limiter + margin
}

// Patience is how far a turn may be for a task to wait for it in its worker. A
// task that comes back in time has at most this long to wait, so it is put back
// only once.
func Patience(lead time.Duration) time.Duration { return lead + floor + margin }
