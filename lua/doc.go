// Package lua holds the Redis scripts of a rate limiter that is a queue in front of a rate meter.
// Read it to write a worker in another language, or to know what happens in Redis. Go programs use
// package reserve, which calls these scripts. This call of the script ask wants a turn of a limit
// of 50/s with a burst of 5:
//
//	keys := lua.Keys("fleetpace", "", "maps-api", "p", "")
//	reply, err := lua.Ask.Run(ctx, client, keys,
//		"", 500, 20_000, 20_000, 300_000, "", "worker-1", 1, "", // the process, times in micros
//		"p", 20_000, 5, 0, "", 0, "", "", "", 0, // the limit: 20 ms per permit, a burst of 5
//		1, 1, 0, 1, 1, 1, "", // one call of cost 1
//	).Slice()
//	if err != nil {
//		return err
//	}
//	status, wait := reply[7], reply[8] // status 1: the call has its turn, in wait micros
//
// The header of each file documents the arguments and the reply of a script, and head.lua documents
// the arguments that all scripts have. docs/glossary.md explains the terms.
//
// # The model
//
// A limit is a queue in front of a rate meter. The meter knows what the provider still allows:
// paced.lua (GCRA), quota.lua, rolling.lua, slots.lua and warming.lua implement the functions that
// meter.lua lists. The queue is a sorted set of places: waiting calls in the order of their tags. A
// place owns no permits. A turn is the permits granted to a call, and the moment at which they are
// due. A turn is granted at most a horizon before it is due, and only a pause revokes it.
//
// [Ask] grants a call its turn, at all limits that it needs, or gives it a place and a forecast at
// the limit that holds it back most. A caller asks again shortly before its forecast, with its
// tags. [Take] does the same for new calls where nobody waits: it takes less of Redis's time, and changes
// nothing if a call must ask in full. [Leave] removes a place, or returns turns that were not used. [Settle] replaces the
// estimated cost of a call. [Pause], [Resume] and [Set] move the meter. [Inspect] changes nothing.
// [Beat] is the heartbeat of a process: it finds dead processes, and says which of the configured
// limits is in force.
//
// # Heartbeats
//
// A heartbeat says that a process is alive, for all names of a group at once. A process sends it
// about every second, before any other request that writes. The first names of the process come
// with the heartbeat. If the process uses more names than the script takes, further messages carry
// the others. A process reports a name when there is something new, every five seconds or so, and
// after another process has died. Redis then also looks for the configured limits of the dead.
//
// A name has one kind of limit. The reply of a heartbeat says which kind is in force. If the limit
// of a process has another kind, it does not count. The process then lets no calls of that limit
// through, until all processes that use the kind in force are gone. So a process uses no turn of a
// name before a heartbeat with that name was answered. The heartbeat may be sent together with the
// first ask. The same holds after a heartbeat that replies 0 or 2.
//
// Before a process asks for slots, its last answered heartbeat must be at most 1.5 s old. Otherwise
// it sends another heartbeat first. A heartbeat replies 2 to a process that had counted as dead.
// Other calls may then have its slots, so the process reports which slots its calls still hold (see
// Slots).
//
// # Plans
//
// The limit of a key may come from the program: its plan, with a version that grows. A caller that
// has plans sends a + before the rank, and as the rank the version and 2^40, so that plans have
// higher ranks than heartbeats give. The newest plan is in force from the first ask that brings it.
// A caller that has brought another one reads the newest one in the reply, behind the @ of the text
// (see head.lua). From then on it brings that one, so that the plan comes back after a loss of data.
// The text that it sends back ends before the @. When the keys of a limit expire, its plan goes.
//
// A plan may be of another kind than the keys, or have another calendar. Then the caller's KIND has two words, and
// the state has them before its numbers. A caller of another KIND gets the problem PLAN. The protocol of the state is
// 1000 higher, so earlier scripts refuse it. A caller that knew the limit as another kind sends no reach. The same
// number protects leases of slots, which earlier scripts do not know.
//
// # Versions
//
// The protocol is what processes of different versions of this module must understand alike: the keys, what the
// scripts write there, and the messages. Each process runs the scripts of its own version, so the
// arguments and replies of scripts are no part of it. It has a number, [Protocol], that each heartbeat
// tells, and each state has the highest number that has written it. v0.2 had protocol 2.
//
// Processes of a protocol and of the next one share limits: a change of the scripts has to work beside the
// scripts before it. If the older ones cannot do something, the newer ones use it only while the
// heartbeat says that all living processes speak the new protocol. For such a change the number grows by one. If a process comes that
// cannot share the limits of the processes that are there, its heartbeat is refused: the kind in the reply is
// the number of their protocol. Its calls must not be made until they are gone. A script also refuses a state
// that a later protocol than the next one has written. The first heartbeat of a protocol publishes
// "protocol <number>": on that message, the other processes send a heartbeat at once. Package internal/frozen has
// the scripts of an earlier version, and tests play fleets in which some processes run them.
//
// # A small client
//
// One script is enough to share a limit: ask. Its text begins with the files head, queue, join, items and
// common of this package, and the line "return (function()". In the file common, the file spend replaces the line that
// names it. The files meter, paced, quota, rolling,
// warming, arguments, places and slots follow, and the same line again. After that come the files
// shares, room, bookings, heads, change, state and ask, and twice the line "end)()". [Keys] returns
// the names of its six KEYS. A client without any memory sends
//
//	'' way horizon near 300000 '' process serial ''    of itself; a new serial each time
//	p interval burst 0 '' 0 '' '' '' 0                 of the limit, 1e6/rate and burst
//	1 number 0 1 1 cost tag                            of one call; its tag is '' at first
//
// All times are in micros. The way (return delay) is half of the fastest round trip. The horizon
// and near say how early the client accepts a turn: 20000, if it does not subscribe to messages.
// The reply begins with the time and four values of the limit. The last of them is the limit's
// problem, or empty. Then come
//
//	0 1 1 wait usable tag    its turn: sleep for wait, then make the call
//	0 1 0 wait 1 tag         a place: sleep almost for wait, then ask again with the tag and
//	                         the same number
//	0 1 2 0 problem tag      refused
//
// Wait and usable count from the arrival of the reply. A turn may be used until usable, and 20 ms
// longer, because a sleep ends late. After that, ask again. examples/python implements all of this.
//
// A new call with a deadline sends 32 and the micros until the deadline, in place of its 0. They
// count from clockMicros, Redis's time at which the ask is sent; if that is not known, from the
// arrival of the reply. If its turn would come later, the call gets neither a turn nor a place. The
// reply is then 0 1 4 wait 1 and a tag, and its turn would be due after wait.
//
// # What a caller has to do
//
//   - Use a turn from its moment until it ends (waitMicros, usableMicros). After that, ask again
//     with the tag, and with `back` if no turn of that ask was used.
//   - If the reply of an ask was lost, send the ask again, with the same serial, the same numbers
//     of its calls, and `back` naming itself. Redis finds its places by the numbers. The permits
//     that the first attempt spent come back, unless another call has spent permits since. At a
//     quota they come back then, too, if they are among the largest ones: 32 of turns that are not
//     due yet, and eight others of the last seconds.
//   - Subscribe to three kinds of messages. Each names a moment, and applies to turns that were
//     granted until then. After a pause ("until:<micros>,paused"), drop the unused turns that are
//     due before its end, and ask again for their calls. After an early end of a pause ("resumed"),
//     all turns stay, and the first waiting call asks. After a change of the limit
//     ("limit:<factor>:<less>", or "limit:1:0" if neither the interval is another nor the burst is
//     smaller), turns of a paced limit may be used when they are due, and 20 ms longer.
//   - Remember for each limit what the last reply said (text, version, reach), and its time. Also
//     remember Redis's clock of that moment, and continue it with a monotonic clock. Send all of it
//     with the next call. With the first call of a limit, send the clock from any reply of any
//     limit. Without it, Redis cannot tell a late copy of that call from a new call. If Redis's
//     clock has stepped ahead in the last minute, send that clock as if it had not, except for
//     quotas and slots: the limit may have been used before the step.
//   - Read the server's run ID with each heartbeat, and send it. Put "?" before it in an ask if another
//     server may have taken over: before the first heartbeat is answered, after a broken connection,
//     after NOSCRIPT, and if Redis has not answered for 100 ms. Then the script reads the run ID. It also
//     does so if a limit has no state, or the state has another run ID. If a reply
//     names another run ID than the last heartbeat, send a heartbeat at once, and "?" until it is
//     answered. (In a cluster, each shard has its own. There, only the run ID of the heartbeat counts.)
//   - Notice lost data: a heartbeat replies 0, although the process has sent heartbeats before. (If
//     two heartbeats were in flight at the same time, the first may be answered last.) Until the
//     next reply of a limit, send a reach of at least 0, and for slots "1 0". For paced limits and
//     slots that this process never asked for, send the text "1" with it.
//
// # What keeps the limit
//
// A meter never lets calls spend more than its provider allows, in whatever order they ask. The
// queue only decides which call is next. So the limit depends only on each meter, and on the moments
// at which turns are used. The following rules were found by playing histories to a strict
// provider, and a change may break them without notice:
//
//   - `turn` of leave says how many permits of an ask are kept, and not how many come back.
//     Otherwise a message that arrives twice would return a turn that is in use.
//   - A turn is due at most way + horizon after Redis granted it, and together they are at most a
//     second. So if turns may exist that Redis does not know (another server, lost data), the next
//     turn is due a second from now at the earliest.
//   - Keep clockMicros per limit: a caller that learns of a step of Redis's clock at one limit must
//     still report it at the others. A limit knows for a minute by how much the clock has stepped
//     back: the clock of a caller that has had no reply since lacks that step. If no caller asks between a
//     step back and a step ahead, Redis may not notice the second one.
//   - If costs are settled, a turn may be used up to 20 ms after it is due, and 20 ms longer. Other
//     turns of paced limits may be used until the provider's bucket is full: after that, returned
//     permits would overflow it.
//   - A change of the limit revokes no turn and moves none. The new pace begins after the granted
//     turns, so it is in force within a horizon. A provider that changes its limit at that moment
//     refuses no call. New turns must not begin among the old ones, because both paces together
//     overflow a small bucket. Turns of the old limit do not return to a slower limit.
//   - A quota, a rolling limit and a limit with warm-up learn only the usage that callers remember
//     after a loss of data, so calls may come too early then.
//
// # For people
//
// With its heartbeats a process sends a report per name. It is JSON that the scripts do not read:
// host, pid, waiting calls by key and flow, used permits by key. Redis keeps it for ten minutes
// after the process's death. The hash of [Index] holds the names of all limits: each process writes
// its names there every ten minutes. Nothing depends on either. A message without a limit says that
// the process no longer needs a name, and its report has `ended`. A last such message for the whole
// process signs it off: the scripts then treat it as dead.
//
// # Order
//
// A tag is Redis's time at the arrival of a call, made unique. Tags that callers bring after a loss
// of data sort before new tags, so they need no epoch. A call that returns with its tag goes to the
// front.
//
// The head of the queue has a grace to ask, once its permits are there. At a paced limit, the grace
// ends earlier if a whole permit would be lost. After that, its process loses its places among the
// first 64 of the queue. Dead processes lose those among the first 256 as soon as
// one of them is at the head, and every ten seconds. Calls of one limit that wait and ask
// meanwhile get that moment as their forecast. The grace counts from the first moment at which the
// permits of that head were there, even if other calls have taken them since. Otherwise each turn of
// another call would restart the grace, and a fleet behind a dead process would get one turn per
// grace.
//
// A script that finds the head late notifies its process ("overdue:<process>"). So does a call that
// leaves its place to wait at another limit, if the next place is late. So does an ask that is given turns
// of a quota, as the next head may not know its window. The first waiting call of
// the notified process then asks. A process gets the message once, until it asks. It also gets it if a
// call behind the head has a turn before the head, as its process looks further ahead. A head that was
// notified may have a turn that is due within half a second, whatever its horizon is.
//
// If an item holds many new calls that cannot take the common path, the script answers at most 16
// of them, so that no script takes long. The others ask again.
//
// # Shares
//
// A call may name its flow, such as its tenant (`how` of ask, +16, with weight, urgent and flow
// behind it). From the first such waiting call on, tags are start tags of start-time fair queueing.
// A call's tag is the later one of two: the end of the last call of its flow, and `virtual`, the
// highest tag that had a turn. The call ends later than its tag by its cost times the limit's pace,
// divided by its weight. So the flow that has had the least for its weight comes first. Calls
// without a flow are one flow together. When no call waits any more, all debts end.
//
// A call that leaves its place leaves no debt, but a gap in its flow. The later calls of that flow
// move forward when they ask next. Replies contain the tags that count now. An urgent call has the
// tag `virtual`, or the end of the last urgent call: so urgent calls together get at most their
// part of the limit. The member of a place ends with weight and flow, so a script that removes the
// place knows which flow to refund.
//
// # Slots
//
// A limit of slots bounds how many calls run at the same time. A turn holds its slots, under the
// number of its call, until [Leave] says that the call is done, or its process is dead. Nobody knows
// when that will be. So when slots are free for the first n waiting calls of a process, Redis
// publishes "room:<process>:<n>", and these calls ask. If they do not, the next script call for the
// limit repeats the message, and notifies further processes. The third number of the reach says
// after how many micros a process must look again (look of leave), because of free slots or the end
// of a pause. The notified process looks a tenth of a second after that, unless a later reply says
// 0. A process without a subscription asks about every half second. A call that asks again holds
// nothing, so the slots of a lost reply are free.
//
// A message may be lost, and a copy may arrive late. So a process compares from time to time which
// of its calls hold slots in the log, and sends `done` for calls that do not need them. With it, the
// process sends the clock of the moment of the comparison, so slots that were granted later stay. An
// operator may take slots away (free of leave). The score of the holder is then the negative of that
// moment. The holder cannot keep the slots any more, and learns that when it compares. The entry
// ends with its `done`, or with the sweep for dead processes after ten minutes.
//
// If the last answered heartbeat of a process is deadMicros old, the process may count as dead. Then
// it reports the slots that its calls still hold (keep of leave). It does the same if Redis has lost
// its data or is another server. After a loss of data, no slot is granted until the new state is
// three seconds old, which is longer than those reports take. On another server, earlier slots are
// forgotten, because it may have missed which calls are done.
//
// # Bookings
//
// A call that is made later, perhaps by another process, has an ID and is booked. An example is a
// task of a job queue. Its tag is kept under the ID, and it holds neither permits nor a place. Its
// forecast counts the bookings before its own. When it returns, it goes ahead of all calls that
// arrived after it. The queue does not wait for a booking, and forecasts of waiting calls assume
// that no booking returns. A booking that does not return no longer counts once a call with an ID
// and a later tag had its turn. So 900 deleted tasks cost nothing.
//
// # State
//
// The hash of a limit is readable: nextFreeTicketMicros, fraction, limit, and so on. Its field
// plain is one text of the epoch, the run and the limit in force. It begins with ~ if a call may not
// take the common path, which is two commands and compares that text as a whole (common.lua). A call
// that joins the queue of a paced limit, or leaves it, takes a short path, too, while no head is due and
// nothing but the queue changes (queue.lua).
// Versions grow with every write. The keys expire about half a minute after the bucket is full, if no call waits, since
// then nothing needs to be known. The keys of slots that are free stay for ten minutes: if a step of the clock ended
// them, this would look like a loss of data. Each kind of limit has its own keys: a limit that becomes a quota
// starts with a full quota. A call may need up to 16 limits here; package reserve allows 8.
//
// # Where to find it
//
//   - head.lua and items.lua read the arguments of each script call.
//   - ask.lua grants turns and places. take.lua and common.lua are its short paths where nobody waits, join.lua and
//     queue.lua where calls wait.
//   - leave.lua takes back places, turns and slots, with quit.lua and queue.lua as its short path. settle.lua has costs
//     that are known later, and what was spent without Redis.
//   - pause.lua, resume.lua, set.lua and level.lua are for operators and for what the API says. inspect.lua only reads.
//   - beat.lua has heartbeats: who is alive, and which limit is in force under a name.
//   - meter.lua has what all meters share. paced.lua, quota.lua, rolling.lua, slots.lua and warming.lua are the meters.
//   - arguments.lua and state.lua read and write a limit. change.lua has lost data, clocks that step, and new limits.
//   - places.lua is the queue, heads.lua a head that is late, room.lua free slots, shares.lua flows, and bookings.lua
//     calls that come back.
package lua
