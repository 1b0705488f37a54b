// Package scheduler books the turns of asynq tasks when they are enqueued. A task is scheduled for
// shortly before its turn, so it enters its worker once.
//
//	s, err := scheduler.New(client, limiter, scheduler.Config{})
//	...
//	forecast, err := s.Enqueue(ctx, asynq.NewTask("geocode", address))
//	// forecast.At is when it will run
//
// The workers of the tasks must use package worker with the same limits: there a task finds its
// booking, and sleeps the short time until its turn. Without package worker, nothing holds tasks to
// the limit.
//
// A booking is a place in the order and takes no permits. So tasks that are deleted, or that cannot
// be enqueued, cost no permit.
//
// # Options
//
// Pass options to Enqueue or to asynq.NewTask. If an option is given twice, the last one counts,
// and options of Enqueue come last. asynq keeps the options of NewTask private, so this package
// reads them by reflection. It cannot read a Deadline or a ProcessAt there and refuses them: pass
// these to Enqueue. If another version of asynq stores its options elsewhere, the options of
// NewTask are not found: a TaskID, Queue, ProcessAt or ProcessIn among them then has no effect.
//
//	Queue, TaskID         name the task; without a TaskID it gets a UUID
//	MaxRetry, Retention   passed on
//	Timeout               passed on. A Timeout shorter than the time that a task
//	                      may sleep in its worker (Lead and 1.1 s) is refused
//	Deadline              passed on. A turn after it is refused with
//	                      reserve.ErrWouldMissDeadline, and not booked
//	ProcessAt, ProcessIn  the turn comes at that moment or later. A task whose turn
//	                      would be earlier, or that has a TaskID of your own, is not
//	                      booked now: it comes up at that moment, in whole seconds
//	                      rounded up, and waits from then on
//	Unique                the lock lasts at least for its TTL after the turn,
//	                      if the turn does not move back. A duplicate is an
//	                      asynq.ErrDuplicateTask
//	Group                 refused: asynq merges such tasks into new tasks, which
//	                      have no turn
//	any other             refused, because its effect is not known
//
// A task whose [Need] says Skip is enqueued with unchanged options.
//
// # The booking of a task that was not enqueued
//
// The booking ends, if Redis can be reached, unless the task has a TaskID of your own. Such a
// TaskID names one booking, however often and by whichever program it is enqueued, so the booking
// stays: a task that waits under it keeps its place. If no task waits, other calls skip the
// booking.
//
// If asynq enqueued a task and only its reply was lost, the booking ends, too. The task then waits
// for its turn when it comes up.
//
// # Periodic tasks
//
// An asynq.Scheduler enqueues its tasks itself, and each runs soon after that. So nothing can be
// scheduled ahead: such tasks wait in the worker when they come up.
package scheduler
