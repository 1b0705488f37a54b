// Package riverpace makes the jobs of a River fleet take turns at a rate-limited API. It is
// middleware: a job is worked when it has its turn.
//
//	config := &river.Config{
//		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 200}},
//		Workers: workers,
//	}
//	paced, err := riverpace.New(limiter, riverpace.Config{})
//	...
//	if err := paced.Apply(config); err != nil {
//		return err
//	}
//	client, err := river.NewClient(riverpgxv5.New(pool), config)
//
// # What happens to a job that has to wait
//
// It joins the queue of the limit. If its turn is near, it waits in its worker. If not, it is booked and
// snoozed until shortly before its turn. It keeps its place in the order, whichever client works it next. A
// snooze counts no attempt, and no ErrorHandler is called. A job that returns late, or never, delays no
// other job: another waiting job gets the turn. While Redis is unreachable, [reserve.Outage] decides. A job
// that gets no turn then is snoozed for 1 to 3 s.
//
// River looks for due jobs once per FetchPollInterval. So a snooze ends that much earlier, and
// jobs wait in their workers for up to [Pacer.Patience]: 2.3 s with River's defaults.
//
// # How many workers
//
// A job that waits in its worker is one of the MaxWorkers. At 100/s, about 50 jobs wait in their workers
// for half a second each. To use its limit to the full, a fleet needs workers for them, and for the jobs
// that run. At most Patience times the rate wait at once. Jobs that need no turn queue behind waiting jobs:
// give them another queue.
//
// # When a client stops
//
// Waiting jobs return to River at once when their contexts end: with StopAndCancel, with the Start context,
// or when SoftStopTimeout is over. They keep their places and are available to other clients. Stop lets
// them have their turns, for up to four times Patience. Close the limiter when the client has stopped.
//
// If the end of its context cuts off a job's call, River works the job again, and counts no
// attempt. Give a call that must not be made twice a context without cancel, see
// [context.WithoutCancel], or a SoftStopTimeout that is longer than the call.
//
// After RescueStuckJobsAfter, River rescues the jobs of a client that was killed. A rescue counts an
// attempt. If that client was River's leader, snoozed jobs are up to 16 s late, until River has another
// leader.
//
// # Timeouts and clocks
//
// A job's Timeout counts from its turn. RescueStuckJobsAfter counts from when the job entered its worker:
// make it at least 10 s longer than the longest Timeout. If the clocks of clients and PostgreSQL differ by
// more than 0.2 s, jobs are late. The limit is kept all the same.
package riverpace
