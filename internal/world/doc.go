// Package world plays whole fleets in simulated time, and judges them by laws. It is for tests.
//
// A history follows from one seed. It has a simulated Redis, which runs the shipping scripts, limits,
// processes, callers, and events: messages are lost, servers fail, processes are killed or stopped. A
// strict provider stands behind each limit. A process is the shipping [engine.Engine]: type client gives it
// a clock, a connection and its calls, as [engine.Process] does elsewhere. Everything happens in one
// thread, in the order of one schedule. Code that waits for a reply meanwhile is a coroutine.
//
// # The laws
//
//   - safe: a strict provider of the limit refuses no call, and no call is made in a pause, except one that probes a
//     hard stop. Nobody probes a stop too soon after another call, or before an end that is known
//   - used: while a call waits that could be made, no permit is lost, except what the events of the
//     history may cost. [Guarantees] is the table: docs/how-it-works.md prints it
//   - alive: when all events are over, each call has its turn, or its error, within a bound. Calls at a limit with a
//     hard stop fail: waiting calls within a second, and later ones at once
//   - order: if nothing has happened for three seconds, at most one in twenty calls of paced limits
//     has its turn out of the order in which calls came. A call has the place of a call before it, in its
//     process, that gave up
//   - quiet: the fleet makes at most four script calls for each turn, and for each call that missed its
//     deadline, was booked or was given up, and six for each second of a process. No call asks again and again
//     while neither time passes nor news come, and time never stands still
//   - clean: when all is over, no call has a place, none holds a slot, and each key expires. A fail-over to older
//     data may bring places back, until a call asks for the limit or its keys expire
//   - true: the texts of errors and states are correct
//
// Some things are not judged. After a loss of data nobody knows what was used of a quota, a rolling limit
// or a limit that warms up. And if calls need several limits of other kinds than paced ones, it is hard to
// say which permits could have been used.
//
// # Transcripts
//
// The program itself cuts a history that breaks a law down to what it needs to fail, and prints it:
//
//	world seed=7 policy=wait until=5s
//	limit name=api is=100/s
//	process number=#0 trip=1ms timeout=500ms
//	process number=#1 trip=20ms timeout=500ms
//	load callers=20 of=all need=0:1
//	2s kill of=#1
//
// Here two processes share a limit of 100/s. Their round trips to the server take 1 ms and 20 ms. They have
// twenty callers, and each makes one call after the other, of one permit of limit 0. After two seconds the
// second process is killed. A word that is missing in a line is zero: see type load and type event. A
// transcript in testdata is played with each test. There it may have bounds beyond the laws. This line says
// that two processes make at least 1,188 calls in the first 12 seconds, and that no call waits for longer
// than three:
//
//	expect permits=1188 until=12s wait=3s
//
// Play a transcript with
//
//	FLEETPACE_WORLD_TRANSCRIPT=file go test ./internal/world -run TestTranscripts -v
//
// A process may have another version of fleetpace: "version=earlier" runs the scripts of package frozen, and
// "version=later" speaks a next protocol that exists only here.
//
// A seed alone is played by FLEETPACE_WORLD_SEED=7 go test ./internal/world -run TestHistories -v. Two plays
// of a seed are the same. From seed 1000 on, the events of some histories meet: see drawJoints.
//
// # Another event
//
// Give it a name in events.go. Let effect say what it does, or link if it affects messages. Let draw.go
// draw it. Say in [Guarantees] what it may cost. Then plant a mistake that only this event shows:
// planted_test.go has a list, and says within how many histories each is found. Mistakes in the engine are
// in mistakes_test.go. Each of them needs a build of its own, so make mistakes plants them.
package world
