// Command explore plays small worlds exhaustively. A world has the shipping scripts of package lua, two or
// three callers, and one or two limits. Callers, the network, servers and operators act in every possible
// order, up to N actions.
//
// The scripts are not written a second time. They run on gopher-lua, with package smallredis and a clock
// that the explorer sets. This is several times as fast as miniredis. A state is a slice that is never
// changed, so that worlds share it. Callers make requests and read replies with package wire, as package
// reserve does. They handle a reply as doc.go of package lua says (caller.go).
//
// # What is explored
//
// A table (worlds.go) has worlds of all kinds of limits. In each world calls ask, repeat their ask and use
// their turns, and time passes until the next moment for which a caller waits. The table says what else may
// happen, and how many faults there may be:
//
//   - a call uses its turn late, gives it back, or leaves its place; it is booked and comes back; it
//     reports its cost; it gives up without a message
//   - a reply is lost or late; a copy of a request arrives late
//   - somebody pauses the limits, sets another limit, or takes slots away
//   - a process dies; Redis loses its data; a replica with older data takes over; Redis's clock steps
//
// The search is breadth first. States with the same future are merged: times count from now, versions from
// the version in Redis, and equal processes have no names (canon.go). So the first path to a violation is
// one of the shortest.
//
// Three things are not explored: two kinds of limits under one name, turns that are taken ahead of calls,
// and calls that do not wait. News reach all processes at once. A replica has some state of each limit: if
// Redis does not know a limit, a new process finds a full bucket, as the README says.
//
// # Laws
//
//   - safe: a strict provider (provider.go) refuses no call, and no call is made in a pause. So no slot
//     is granted twice. Lost usage of a quota, a rolling limit or a limit that warms up is not judged.
//   - alive: from each state (or from one in N, see Every in the table) the world is played on without
//     faults. Each waiting call has its turn within a bound. The bound follows from the paces of the
//     limits, and from the faults before.
//   - over: a call that is over has no place and no slot.
//   - in order: no call has its turn before a call that came earlier and asks on time.
//   - counted: the sums in the state of a limit match its places, bookings and slots.
//   - forgotten: all keys expire.
//   - protocol: no script fails, and package wire can read each reply.
//
// # How to read a transcript
//
// A violation is printed as a transcript. Each action is a line with the time since the world began, the
// action and its answers, and, in brackets, what Redis holds then. Calls are a, b and c, and processes p0,
// p1 and p2. If the violated law is "alive" or "over", the last line shows everything that happens as the
// world is played on. With -redis the same requests are made to a real Redis, which must give the same
// replies.
//
// # How to add a world, or an action
//
// A world is a line of the table in worlds.go. The test explores it to its depth, and replays some of its
// paths on a real Redis. It fails if the world has too many states. An action is a constant in world.go,
// and a branch in actions.go or faults.go. Then plant a mistake that only the new world finds
// (mistakes_test.go).
package main
