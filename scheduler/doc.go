// Package scheduler gives asynq tasks their turn when they are enqueued. A task
// takes its number at once and is scheduled for shortly before its turn, so that
// it enters its worker once instead of coming up, going back and coming again.
//
//	s, err := scheduler.New(client, limiter, scheduler.Config{})
//	...
//	forecast, err := s.Enqueue(ctx, asynq.NewTask("geocode", address))
//	// forecast.At is when it will run
//
// The tasks need workers with package worker on the same limit: those find the
// number and sleep the short rest. Without them nothing holds the tasks to the
// moment that was forecast.
//
// # Options
//
// An option may be given to Enqueue or to asynq.NewTask; of two of a kind the
// last one counts, and those of Enqueue come last. asynq keeps the options of
// NewTask to itself, so they are read by reflection. A Deadline or a ProcessAt
// can not be read there and is refused; give it to Enqueue. If another version of
// asynq keeps its options elsewhere, those of NewTask are not seen: a TaskID,
// Queue, ProcessAt or ProcessIn among them has no effect then.
//
//	Queue, TaskID         name the task; without a TaskID it gets a UUID
//	MaxRetry, Retention   passed on
//	Timeout               passed on. One shorter than the time that a task may
//	                      sleep in its worker (Lead and 1.1 s) is refused
//	Deadline              passed on. A turn after it is refused with
//	                      reserve.ErrWouldMissDeadline and takes nothing
//	ProcessAt, ProcessIn  the turn comes at that moment or later. A task whose turn
//	                      would be earlier takes none now: it comes up at that
//	                      moment, in whole seconds rounded up, and lines up then
//	Unique                the lock lives from the turn on for at least its TTL,
//	                      if the line moves no further back. A duplicate is an
//	                      asynq.ErrDuplicateTask
//	Group                 refused: asynq merges such tasks into new ones, which
//	                      have no number
//	any other             refused, as its effect is not known
//
// A task whose [Turn] says Skip is enqueued with its options as they are.
//
// # What becomes of the number of a task that was not enqueued
//
// It goes back to the line, if Redis can be reached, unless it may be somebody
// else's: a TaskID of your own names one number, however often and by whomever it
// is enqueued. So the number of an own TaskID stays after asynq.ErrTaskIDConflict
// and asynq.ErrDuplicateTask, and after any failure if the ID had a number before:
// the task that waits under it keeps its place. Where none waits (it was done and
// is retained, say), nobody comes for the number, and that costs the line its
// permits once, however often the ID is tried.
//
// An enqueue whose reply was lost may give back the number of a task that exists;
// the task lines up when it comes up.
//
// # Periodic tasks
//
// An asynq.Scheduler enqueues its tasks itself, and each runs soon after it was
// enqueued, so there is nothing to schedule ahead: they line up in the worker when
// they come up.
package scheduler
