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
// It joins the queue of the limit. If its turn is near, it waits in its worker. If not, it is
// booked and snoozed until shortly before its turn: it keeps its place in the order, in whichever
// client it comes again. A snooze counts no attempt, and no ErrorHandler hears of it. A job that
// comes late, or never, holds nobody up: one that is there has the turn in its stead. While Redis
// is away [reserve.Outage] decides. A job that it gives no turn is snoozed for 1 to 3 s.
//
// River looks for due jobs once per FetchPollInterval. So a snooze ends that much earlier, and
// jobs wait in their workers for up to [Pacer.Patience]: 2.3 s with River's defaults.
//
// # How many workers
//
// A job that waits in its worker is one of the MaxWorkers. A fleet uses its limit to the full
// while jobs for half a second wait in its workers, besides those that work: 50 jobs at 100/s.
// No more wait at once than Patience times the rate. Jobs that need no turn stand behind those
// that wait: give them another queue.
//
// # When a client stops
//
// Jobs that wait go back at once when their contexts end: with StopAndCancel, with the Start
// context, or when SoftStopTimeout is over. They keep their places and are available to other
// clients. Stop lets them have their turns, for up to four times Patience. Close the limiter
// when the client has stopped.
//
// If the end of its context cuts off a job's call, River works the job again, and counts no
// attempt. Give a call that must not be made twice a context without cancel, see
// [context.WithoutCancel], or a SoftStopTimeout that is longer than the call.
//
// The jobs of a client that was killed come again when River rescues them, after
// RescueStuckJobsAfter. A rescue counts an attempt. If that client was River's leader, snoozed
// jobs come up to 16 s late, when River has another one.
//
// # Timeouts and clocks
//
// A job's Timeout counts from its turn. RescueStuckJobsAfter counts from when the job came into
// its worker: make it at least 10 s longer than the longest Timeout. Where clocks of clients and
// PostgreSQL differ by more than 0.2 s, jobs come late. The limit is kept all the same.
package riverpace
