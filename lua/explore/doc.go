// Command explore plays small worlds exhaustively. A world has the shipping scripts of package lua, two
// or three callers, and one or two limits. All orders are played in which callers, the network, servers
// and operators may act, up to a number of actions.
//
// Nothing of the scripts is written a second time: they run on gopher-lua, with a Redis of a few
// commands in plain Go (db.go) and a clock that the explorer sets. That is several times as fast as miniredis,
// and a state is a slice that is never changed, so that worlds share it. Callers make requests and
// read replies with package wire, as package reserve does. What they do with a reply is what doc.go of
// package lua asks of a caller (caller.go).
//
// # What is explored
//
// Worlds of all kinds of limits stand in a table (worlds.go). In each of them calls ask, repeat their ask, use their
// turn, and time passes until the next moment that somebody waits for. The table says what else may
// happen, and how often something goes wrong:
//
//   - a call uses its turn late, gives it back, or leaves its place; it is booked and comes back; it
//     tells what it cost; it gives up and tells nobody
//   - a reply is lost or late; a copy of a request arrives late
//   - somebody pauses the limits, sets another limit, or takes slots away
//   - a process dies; Redis loses its data; a replica with older data takes over; Redis's clock steps
//
// The search is breadth first. States that go on alike are merged: times count from now, versions from
// the one in Redis, and processes that are alike have no names (canon.go). So the first path to a violation is one of the
// shortest.
//
// Not explored are two kinds of limits under one name, turns that are taken ahead of calls, and calls
// that do not wait. News reach all processes at once. A replica has at least heard of each limit: of a
// limit that Redis does not know a new process finds a full bucket, as README says.
//
// # Laws
//
//   - safe: a strict provider (provider.go) refuses no call, and no call is made in a pause. So no slot
//     is given twice. What Redis has lost of a quota, a rolling limit or a limit that warms up is not judged.
//   - alive: from each state (or one of so many, see Every in the table) the world is played on, while
//     nothing goes wrong any more. Each call that waits has its turn within a bound. The bound follows from the
//     paces of the limits, and from what went wrong before.
//   - over: nothing that is over holds a place or a slot.
//   - in order: no call has its turn before one that came earlier and asks when it was told to.
//   - counted: the sums that the state of a limit has are those of its places, bookings and slots.
//   - forgotten: all keys expire.
//   - protocol: no script fails, and package wire can read each reply.
//
// # How to read a transcript
//
// A violation is printed as a transcript: one line per action, with the time since the world began, what
// was done and answered, and, in brackets, what Redis holds then. Calls are a, b and c, and processes p0, p1
// and p2. If the law that is broken is "alive" or "over", the last line is all that happens when the world is played on. With
// -redis the same requests are made to a real Redis, which must give the same replies.
//
// # How to add a world, or an action
//
// A world is a line of the table in worlds.go. The test explores it to its depth, replays some of its paths on a real Redis,
// and fails if it takes too many states. An action is a constant in world.go, and a branch in
// actions.go or faults.go. Then plant a mistake that only the new world finds (mistakes_test.go).
package main
