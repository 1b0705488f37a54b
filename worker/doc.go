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
// whichever worker, it has its place still.
//
// A task that does not come again in time (its worker died, its queue is paused,
// it was deleted) holds nobody up: whoever is awake has a turn in its stead, and if it
// comes after all it is first.
//
// Where a fleet just starts on a backlog of thousands, tasks that come back would
// have to stand behind all of it in asynq's queue, and be late. So while tasks come one
// after the other, those whose turns are next sleep in their workers, in up to half of
// the waiting room. A backlog that takes longer to hand out than that room lasts still
// makes some tasks change places with others far behind them, and come more often; a
// larger [Config.WaitingRoom] helps.
//
// A pause, or a slower limit, reaches all that sleep at once. Those that are put back
// come when they were told, and are put back once more; where a pause ends early, or a
// limit is faster, they do not come earlier.
//
// # So many tasks at once
//
// With a limit of [reserve.Concurrent], alone or beside rates, a task holds its slot until its
// handler ends, whatever it returns. The slots of a worker that is killed are free for others
// after some seconds, and asynq gives its tasks to others later than that.
//
// # Tenants that share a limit
//
// [Turn].Flow says whose task it is: where tasks wait, each flow has its turns by its Weight,
// and one that enqueues a hundred thousand holds up nobody but itself. Its tasks come into a
// worker a few times more for that, as those of others come between. An Urgent one is first.
// Enqueue such tasks in a queue of asynq that is not behind the backlog of others: who is to be
// first has to be in a worker.
//
// # Waiting is cheap, working is bounded
//
// A waiting task is a sleeping goroutine, so Apply makes asynq's Concurrency a
// waiting room of 1,000 or more, while no more handlers work at once than the
// Concurrency that you asked for. Where no handler is free when a turn comes, and
// none becomes free while the turn can still be used, the turn lapses and the
// task, in its place, waits for another; the log and [Stats] tell.
//
// # Costs that are known afterwards
//
// A task's cost may be an estimate. Its handler tells with [Settle] what it used, or
// [Config.Used] says it for all tasks; the difference is settled when it is done.
//
// # Tasks that can not be put back
//
// asynq archives a task that fails in its last attempt, whatever the error. So a
// task with MaxRetry(0), or in its last attempt, waits in its worker for however
// long it takes. If that is longer than its Timeout (asynq gives 30 minutes) or Deadline allows, it fails
// as it starts, with an error that says so. Package scheduler lets it come up shortly
// before its turn instead.
//
// # Timeout, Deadline and Unique
//
// Timeout counts from the moment at which asynq hands the task to a worker, so
// what a task sleeps there is spent: allow [Worker.Patience] more than the
// handler needs. A task does not sleep until its Timeout is over: it goes back a
// moment before, and comes again for its turn. A task whose turn comes after its
// Deadline fails (see [Config.Inspector]). A Unique lock is not extended while a task
// is put back: choose its TTL longer than the wait gets, or enqueue with package
// scheduler, which does.
package worker
