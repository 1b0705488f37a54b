// Package worker keeps the tasks of an asynq fleet within an API's rate limit. It is middleware:
// the handler of a task runs when the task has its turn.
//
//	w, err := worker.New(limiter, worker.Config{})
//	...
//	config := asynq.Config{Concurrency: 25}
//	if err := w.Apply(&config); err != nil {
//		return err
//	}
//	server := asynq.NewServer(redis, config)
//	return w.Run(ctx, server, mux)
//
// Limits may be of any kind, and a task may need several at once, such as the limits of a tenant
// and of the account, or of requests and tokens. See [Need].
//
// # How a task waits
//
// The task joins the queue. If its turn is near, it sleeps in its worker until then. If not, its
// turn is booked, and the task is rescheduled in asynq for shortly before it. The task keeps its
// place in the order under its ID, except in a long backlog, and any worker may run it. Rescheduling is not a failure: it
// uses no retry, calls no ErrorHandler and never archives a task.
//
// A task may not come back in time, because no worker runs, its queue is paused, or it was deleted.
// It is then skipped, and another call gets the turn. If it returns later, it goes to the front.
//
// If a worker is killed, asynq finds its tasks one to two minutes later. It counts a failure for
// each, also for tasks that only waited. The failure uses a retry, and the task joins the end of
// the queue; in its last attempt it is archived. Rescheduled tasks keep their places.
//
// If a fleet starts with a backlog of thousands, a rescheduled task comes back behind the whole
// backlog in asynq's queue, and would be late. So while asynq delivers a backlog, the tasks with
// the next turns sleep in their workers, in up to half of the waiting room. For a long backlog that
// may not be enough. Some tasks then change places with tasks far behind them, and are rescheduled
// more often. A larger [Config.WaitingRoom] helps.
//
// A pause, or a change of the limit, reaches all sleeping tasks at once. Rescheduled tasks come
// back at the old moment, and are rescheduled again. If a pause ends early, or a limit gets faster,
// they do not come back earlier.
//
// # Concurrency limits
//
// With a limit of [reserve.Concurrent], alone or with rates, a task holds its slot until its
// handler returns, whatever it returns. If no handler is free for a task with a slot, the slot goes
// to other processes after about a second. If a worker is killed, its slots are free after 3 to 5
// seconds. asynq gives its tasks to other workers later than that.
//
// # Tenants that share a limit
//
// [Need].Flow names the tenant of a task. Each flow with waiting tasks gets its turns by its
// Weight. A tenant that enqueues a hundred thousand tasks delays only its own tasks. They are
// rescheduled a few times more, because tasks of others come between.
//
// An Urgent task goes first, but only once it is in a worker. So enqueue urgent tasks in a separate
// asynq queue with a higher priority.
//
// # Waiting is cheap, working is bounded
//
// A waiting task is a sleeping goroutine. So Apply raises asynq's Concurrency by a waiting room of
// 1,000 or more tasks. At most as many handlers run at once as your Concurrency said. If no handler
// is free while a turn can be used, the turn expires, and the task waits for another turn in its
// place. The log says so, and [Stats] counts it.
//
// # Correcting costs after the call
//
// The cost of a task may be an estimate. Its handler reports the real cost with [Settle], or
// [Config.Used] does so for all tasks. The worker settles the difference when the handler returns.
// Then it takes in what the API says is left, if the handler has called [Told].
//
// # Tasks that cannot be rescheduled
//
// asynq archives a task that fails in its last attempt, whatever the error. So a task with
// MaxRetry(0), or in its last attempt, waits in its worker until its turn. If its Timeout (by
// default 30 minutes in asynq) or Deadline ends before that, it fails at once, and the error says
// so. With package scheduler, the task comes up shortly before its turn instead.
//
// # Timeout, Deadline and Unique
//
// Timeout counts from the moment at which asynq hands the task to a worker, so it includes the time
// that a task sleeps there. Make it longer than the handler needs by [Worker.Patience]. A sleeping
// task is rescheduled a moment before its Timeout is over. A task whose turn
// comes after its Deadline fails: see [Config.Inspector].
//
// A Unique lock is not extended while a task is rescheduled. Choose a TTL that is longer than the
// wait, or enqueue with package scheduler, which extends the lock.
package worker
