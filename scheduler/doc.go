// Package scheduler gives asynq tasks their turn when they are enqueued. A task is
// booked at once and is scheduled for shortly before its turn, so that it enters its
// worker once instead of coming up, going back and coming again.
//
//	s, err := scheduler.New(client, limiter, scheduler.Config{})
//	...
//	forecast, err := s.Enqueue(ctx, asynq.NewTask("geocode", address))
//	// forecast.At is when it will run
//
// The workers of the tasks must use package worker with the same limits: there a task finds
// its booking, and sleeps the short time until its turn. Without that, nothing holds tasks
// to the limit.
//
// A booking is a place in the order and takes no permits. So tasks that are deleted,
// or whose enqueuing fails, cost the limit nothing.
//
// # Options
//
// Give options to Enqueue or to asynq.NewTask. Of two of a kind the last one counts, and
// those of Enqueue come last. asynq keeps the options of NewTask to itself, so they are read
// by reflection. A Deadline or a ProcessAt cannot be read there and is refused: give it to
// Enqueue. If another version of asynq keeps its options elsewhere, those of NewTask are
// not seen: a TaskID, Queue, ProcessAt or ProcessIn among them has no effect then.
//
//	Queue, TaskID         name the task; without a TaskID it gets a UUID
//	MaxRetry, Retention   passed on
//	Timeout               passed on. One shorter than the time that a task may
//	                      sleep in its worker (Lead and 1.1 s) is refused
//	Deadline              passed on. A turn after it is refused with
//	                      reserve.ErrWouldMissDeadline, and not booked
//	ProcessAt, ProcessIn  the turn comes at that moment or later. A task whose turn
//	                      would be earlier, or that has a TaskID of your own, is not
//	                      booked now: it comes up at that moment, in whole seconds
//	                      rounded up, and waits from then on
//	Unique                the lock lives from the turn on for at least its TTL,
//	                      if the turn does not move back. A duplicate is an
//	                      asynq.ErrDuplicateTask
//	Group                 refused: asynq merges such tasks into new ones, which
//	                      have no turn
//	any other             refused, as its effect is not known
//
// A task whose [Turn] says Skip is enqueued with its options as they are.
//
// # What becomes of the booking of a task that was not enqueued
//
// It ends, if Redis can be reached, unless the task has a TaskID of your own. Such a TaskID
// names one booking, however often and by whomever it is enqueued, so the booking stays: a
// task that waits under it keeps its place. If no task waits, nobody comes for the booking,
// and others pass it.
//
// If asynq enqueued a task and only its reply was lost, the booking ends, too. The task then
// waits for its turn when it comes up.
//
// # Periodic tasks
//
// An asynq.Scheduler enqueues its tasks itself, and each runs soon after it was enqueued. So
// there is nothing to schedule ahead: such tasks wait in the worker when they come up.
package scheduler
