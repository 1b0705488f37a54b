// Package engine is what one process does to have its calls take their turns: a state machine,
// and the shell that runs it.
//
// # The engine
//
// An [Engine] takes events and says what is to be done. It has no lock, no clock and no goroutine,
// does no I/O and writes no log. Events are a call that joins or leaves, the answer to a batch or
// its failure, a message of the news, and time that passes. After each event [Engine.Ready] computes
// from the state what is to be done now: batches to send, calls to wake, events to tell, whether to
// listen to news, and when to look again. A call of a method that changes a line, an alarm or a batch
// is enough. Nobody has to remember to plan anything.
//
// # The data
//
//   - A [Call] is one call of this process, from when it joins until it is over, and for as long as
//     it holds slots. Whether somebody waits for it, holds it as a reservation or has booked it makes
//     no difference to the engine.
//   - A line is the calls that need the same permits of the same limits, first come, first served.
//     They are interchangeable. A line has places in Redis, and the call at an index of the line
//     has the place at that index. So a call that gives up leaves the last place of the line.
//   - A [Turn] is permits that were spent, and when they may be used.
//   - A [Batch] is one script call, with what it asks for. Calls that ask at the same time share one,
//     of whatever limits. A batch that fails is sent again, with the same serial, until Redis answers
//     or counts as away.
//   - A name is what a heartbeat tells of: the limits of one limiter.
//   - A lease is permits that the process has ahead of its calls of a limit: where [wire.Limit] has a
//     Lease, and for a few milliseconds wherever its calls need thousands of permits per second.
//   - An alarm is a moment at which a line, a batch, a lease or one of the engine's own duties is
//     due. All alarms are in one heap, so the shell has one timer.
//
// # A call
//
//	waiting ──▶ given ──▶ used
//	   │  ▲       │
//	   │  └───────┘  its turn was taken back, or came too late to be used
//	   ├──▶ booked   its turn is too far away: another call will come for it, under its ID
//	   ├──▶ back     its holder has put it back: the same
//	   ├──▶ failed   Redis refuses it, its turn is too late for it, or the limiter was closed
//	   └──▶ gone     it gave up, or was cancelled
//
// A call that waits asks once, and has a turn or a place with a forecast. It asks again shortly
// before its forecast, and whenever the news say that the forecast may be wrong. A reservation whose
// turn was over long ago is expired. It waits again if somebody waits for it.
//
// # The shell
//
// A [Process] is an engine with a lock, a timer and a connection. It locks, hands over one event,
// takes what is ready, unlocks, and acts. Calls that come while a batch is under way wait in an
// inbox, so that thousands of them do not compete for the lock with it. A call that has nobody to
// share a batch with sends it itself. A call that finds permits ahead of it draws them from a stock,
// which has a lock of its own.
//
// # Where to find it
//
//   - engine.go has the events and Ready, call.go what a call is, and join.go what happens to it.
//   - line.go, place.go, batch.go, send.go and answer.go are the way of a call to Redis and back: it
//     joins a line, its line asks with a batch, and the answer is a turn or a place.
//   - clock.go says how long round trips take, and how early a call asks. left.go gives back what no
//     call uses. missed.go turns callers away whose deadlines are too short.
//   - heart.go is the signs of life, names.go what they tell, kinds.go which kind of limit is in force.
//   - lease.go takes permits ahead of calls, and stock.go is where calls draw them.
//   - slots.go is who holds slots, and audit.go finds slots that nobody uses.
//   - listen.go subscribes and tries again, news.go acts on what is heard, and looks if nothing is.
//     move.go is what happened to limits: pauses, changes, loss of data.
//   - breaker.go, outage.go and local.go are the time without Redis.
//   - process.go, drive.go, verbs.go and wait.go are the shell.
package engine
