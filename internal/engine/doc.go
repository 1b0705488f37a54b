// Package engine is what one process does to have its calls take their turns: a state machine,
// and the shell that runs it.
//
// # The engine
//
// An [Engine] takes events and says what is to be done. It has no lock, no clock and no goroutine,
// does no I/O and writes no log. An event is a call that joins or leaves, the answer to a batch or
// its failure, a message of the news, or time that passes. After each event [Engine.Ready] computes
// from the state what is to be done now: batches to send, calls to wake and events to tell. It also says
// whether to listen to news, and when to call Ready again. The code of an event only has to touch the
// lines, alarms and batches that it changes: Ready plans everything that follows from that.
//
// # The data
//
//   - A [Call] is one call of this process, from when it joins until it is over, and for as long as
//     it holds slots. A caller may wait for it, hold it as a reservation or have booked it: that makes
//     no difference to the engine.
//   - A line is the calls that need the same permits of the same limits, first come, first served.
//     They are interchangeable. A line has places in Redis, and the call at an index of the line
//     has the place at that index. So when a call gives up, the last place of the line leaves Redis.
//   - A [Need] is permits that were spent, and the moments from which and until which they may be used.
//   - A [Batch] is one script call, with what it asks for. Calls that ask at the same time share one
//     batch, whatever their limits are. A batch that fails is sent again, with the same serial, until Redis
//     answers or counts as unreachable.
//   - A name stands for the limits of one limiter. Heartbeats tell Redis which names the process uses.
//   - A lease is permits that the process has ahead of its calls of a limit. There is one where
//     [wire.Limit] has a Lease, and for a few milliseconds wherever calls need thousands of permits per second.
//   - An alarm is a moment at which a line, a batch, a lease or one of the engine's own duties is
//     due. All alarms are in one heap, so the shell has one timer.
//
// # A call
//
//	waiting ──▶ given ──▶ used
//	   │  ▲       │
//	   │  └───────┘  its turn was revoked, or came too late to be used
//	   ├──▶ booked   its turn is too far away: a later call with its ID has its place
//	   ├──▶ back     its holder has put it back: a later call with its ID has its place
//	   ├──▶ failed   Redis refuses it, its turn is too late for it, or the limiter was closed
//	   └──▶ gone     it gave up, or was cancelled
//
// A waiting call asks once, and gets a turn, or a place with a forecast. It asks again shortly
// before its forecast, and whenever news says that the forecast may be wrong. A reservation whose
// turn ended long ago is expired. It waits again when a caller waits for it.
//
// # The shell
//
// A [Process] is an engine with a lock, a timer and a connection. It locks, hands over one event,
// takes what is ready, unlocks, and acts. Calls that come while a batch is under way wait in an
// inbox, so that thousands of them do not compete for the lock with it. A call that shares its batch
// with no other call sends the batch itself. A call that finds permits ahead of it draws them from a
// stock, which has a lock of its own. Reports of real costs share trips of their own.
//
// # Where to find it
//
//   - engine.go has the events and Ready, call.go has the call, and join.go what happens to it.
//   - line.go, place.go, batch.go, send.go and answer.go are the way of a call to Redis and back: it
//     joins a line, its line asks with a batch, and the answer is a turn or a place.
//   - clock.go says how long round trips take, and how early a call asks. left.go returns what no
//     call uses. missed.go fails calls at once whose deadlines are too short.
//   - heart.go has the heartbeats. kinds.go has what they tell Redis of names, and which kind of limit is in force.
//   - lease.go takes permits ahead of calls, and stock.go is where calls draw them.
//   - slots.go has the calls that hold slots, and finds slots that no call uses.
//   - news.go handles news, to which drive.go subscribes. Where news may be missed, news.go asks Redis.
//     move.go has what happened to limits: pauses, changes, and plans.
//   - outage.go and local.go serve calls while Redis is unreachable.
//   - process.go, drive.go, settle.go, verbs.go and wait.go are the shell.
package engine
