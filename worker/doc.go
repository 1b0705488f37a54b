// Package worker makes the tasks of an asynq fleet take turns at a rate-limited
// API. It is middleware: a task's handler runs when the task has its turn.
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
// Limits may be of any kind, and a task may need several at once: a tenant's and the
// account's, requests and tokens. See [Turn].
//
// # What happens to a task that has to wait
//
// It joins the queue. If its turn is near, it sleeps in its worker until then. If
// not, it is booked and goes back to asynq, to come again shortly before its turn:
// under its ID it keeps its place in the order. Going back is no failure: it spends no
// retry, calls no ErrorHandler and never archives a task. When it comes again, on
// whichever worker, it still has its place.
//
// A task may not come again in time: no worker runs, its queue is paused, or it was
// deleted. It holds nobody up, because whoever is awake has a turn in its stead. If it
// comes after all, it is first.
//
// Of a worker that is killed, asynq finds the tasks one to two minutes later, and counts a
// failure for each, also for those that only waited. That spends a retry, and the task joins
// the queue anew; in its last attempt it is archived. Tasks that were put back keep their places.
//
// Where a fleet starts on a backlog of thousands, a task that comes back stands behind all
// of it in asynq's queue, and would be late. So while tasks come one after the other, those
// whose turns are next sleep in their workers, in up to half of the waiting room. That may
// not last until a long backlog is handed out. Some tasks then change places with others
// far behind them, and come more often. A larger [Config.WaitingRoom] helps.
//
// A pause, or another limit, reaches all tasks that sleep at once. Tasks that were put back
// come when they were told, and are put back once more. Where a pause ends early, or a
// limit gets faster, they do not come earlier.
//
// # So many tasks at once
//
// With a limit of [reserve.Concurrent], alone or beside rates, a task holds its slot until its
// handler ends, whatever it returns. Slots of tasks for which no handler is free go to other
// processes after about a second. The slots of a worker that is killed are free for others
// after some seconds. asynq gives its tasks to other workers later than that.
//
// # Tenants that share a limit
//
// [Turn].Flow says whose task it is. Where tasks wait, each flow has its turns by its Weight,
// and one that enqueues a hundred thousand tasks holds up nobody but itself. Its tasks come
// into a worker a few times more for that, because those of others come between.
//
// An Urgent task is first. But to be first it has to be in a worker: so enqueue such tasks in
// a queue of asynq that is not behind the backlog of others.
//
// # Waiting is cheap, working is bounded
//
// A waiting task is a sleeping goroutine. So Apply makes asynq's Concurrency a waiting
// room of 1,000 or more, while no more handlers work at once than the Concurrency that you
// asked for. If no handler is free when a turn comes, nor while it can still be used, the
// turn lapses. The task keeps its place and waits for another turn. The log says so, and
// [Stats] count it.
//
// # Costs that are known afterwards
//
// A task's cost may be an estimate. Its handler tells with [Settle] what it used, or
// [Config.Used] says it for all tasks; the difference is settled when it is done.
//
// # Tasks that cannot be put back
//
// asynq archives a task that fails in its last attempt, whatever the error. So a task with
// MaxRetry(0), or in its last attempt, waits in its worker for however long it takes. If its
// Timeout (asynq gives 30 minutes) or Deadline ends before, it fails as it starts, with an
// error that says so. Package scheduler lets it come up shortly before its turn instead.
//
// # Timeout, Deadline and Unique
//
// Timeout counts from the moment at which asynq hands the task to a worker, so the time that
// a task sleeps there counts, too. Allow [Worker.Patience] more than the handler needs. A
// task does not sleep until its Timeout is over: it goes back a moment before, and comes
// again for its turn. A task whose turn comes after its Deadline fails: see
// [Config.Inspector].
//
// A Unique lock is not extended while a task is put back. Choose a TTL that is longer than
// the wait, or enqueue with package scheduler, which extends the lock.
package worker
