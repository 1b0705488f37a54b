// Package lua holds the Redis scripts of a queue before a meter. It is for those who write a
// worker in another language, or want to know what happens in Redis. In Go use package
// reserve, which calls these scripts. Here one of them asks for a turn of a limit of 50/s with a
// burst of 5:
//
//	keys := lua.Keys("fleetpace", "", "maps-api", "p", "")
//	reply, err := lua.Ask.Run(ctx, client, keys,
//		"", 500, 20_000, 20_000, 300_000, "", "worker-1", 1, "", // of this process, in micros
//		"p", 20_000, 5, 0, "", 0, "", "", "", 0, // of the limit: 20 ms each, a burst of 5
//		1, 1, 0, 1, 1, 1, "", // of one call, whose cost is 1
//	).Slice()
//	if err != nil {
//		return err
//	}
//	status, wait := reply[7], reply[8] // 1: it has its turn, in so many micros
//
// The header of each file says what a script takes and replies, and head.lua says what all have
// in common.
//
// # The model
//
// A limit is a queue before a meter. The meter knows what the provider would hold: paced.lua,
// quota.lua, rolling.lua, slots.lua and warming.lua have the same functions, on a table that they are
// handed. The queue is a sorted set of places: calls that wait, in the order of their tags.
// A place owns no permits. A turn is permits that were spent, and the moment at which they
// are due. It is given at most a horizon ahead, and is final, unless a pause takes it back.
//
// [Ask] gives a call its turn, at all limits that it needs, or a place at the one that holds
// it back most, with a forecast. A caller asks again a while before its forecast, with its
// tags. [Leave] takes a place back, or turns that nobody used. [Settle] tells what a call
// cost in the end. [Pause], [Resume] and [Set] move the meter. [Inspect] changes nothing. [Beat]
// is the heartbeat of a process: it finds the dead, and says which of the limits that processes
// were made with is in force.
//
// # Heartbeats
//
// Whether a process lives is known for all names of a group at once. So one message says that it
// does, and goes out about every second, before anything else that the process writes. Its first
// names come with it. Where there are more than the script takes in, further messages bring the
// others. A name is told of when there is something new, and every five seconds or so. That is
// also the case when a process has died since: then Redis looks for the limits of the dead.
//
// A name has one kind of limit. A heartbeat replies which one is in force. The limit of a process of
// another kind does not count, and the process lets no calls of it through, until nobody lives who
// uses the kind in force. So no turn of a name is used before a heartbeat that told of it was answered.
// It may go out beside the first ask. The same holds after a heartbeat that replies 0 or 2.
//
// A process that is not sure of its heartbeat does not ask for slots: where the last one that was
// answered left more than 1.5 s ago, another one goes before the ask. A heartbeat replies 2 to a
// process that had counted as dead. Then others may have its slots, and it tells what its calls
// hold still (see Slots).
//
// # A small client
//
// One script is enough to share a limit: ask. Its text is these files of this package, one after
// the other: head, common, paced, quota, rolling, warming, state, places, slots, shares, bookings
// and ask. [Keys] shows the names of its six KEYS. A client that keeps nothing sends
//
//	'' way horizon near 300000 '' process serial ''    of itself; a new serial each time
//	p interval burst 0 '' 0 '' '' '' 0                 of the limit, 1e6/rate and burst
//	1 number 0 1 1 cost tag                            of one call; its tag is '' at first
//
// with times in micros. The way is half of the fastest round trip. The horizon and near say how
// far ahead it wants a turn: 20000, if it does not listen to news. The reply begins with the time
// and four values of the limit, of which the last one is its problem, or empty. Then come
//
//	0 1 1 wait usable tag    its turn: sleep so long, then make the call
//	0 1 0 wait 1 tag         a place: sleep almost so long, then ask again with the tag and
//	                         the same number
//	0 1 2 0 problem tag      refused
//
// Wait and usable count from when the reply arrives. A turn may be used until usable, and 20 ms
// more, as a sleep ends late. After that ask again. examples/python has all of it.
//
// A new call with a deadline sends 32 and the micros until then in place of its 0. If its turn comes
// later, it has neither turn nor place, and the reply is 0 1 4 wait 1 and a tag: wait is when its turn
// would be.
//
// # What a caller has to do
//
//   - Use a turn from its moment until it ends (waitMicros, usableMicros). After that ask
//     anew, with the tag, and with `back` if no turn of that ask was used.
//   - If the reply of an ask was lost, send it again, with the same serial and the same
//     numbers of its calls, and with `back` naming itself. What the first one spent goes
//     back, if nobody has spent since. Its places are found again by the numbers.
//   - Listen to three kinds of news. They name a moment, and are of turns that were given until
//     then. A pause ("until:<micros>,paused"): drop those that were not used and are due before
//     its end, and ask anew for their calls. A pause that ended early ("resumed"): all turns
//     stay, and the first call that waits asks. Another limit ("limit:<factor>:<less>"): so it is
//     then, too. From the moment of the news until a turn of a paced limit is over so many
//     micros pass. They are multiplied by the factor now, and are fewer by `less`, if that is
//     shorter. A turn may be used when it is due in any case.
//   - Remember per limit what the last reply said (text, version, reach), and when that was.
//     Remember what Redis's clock was then, and count on with a monotonic clock. Bring all of
//     it with the next call. With the first call of a limit bring the clock as any reply of any
//     limit told it: else a copy of that call that comes late cannot be told from a new one.
//   - Learn the server's run ID after every broken connection, and send it.
//   - Notice that data was lost: a heartbeat replies 0, though the process has beaten before.
//     (Of two that were under way at once the first one may be answered last.)
//     Until the next reply of a limit bring a reach of at least 0, of slots "1 0". For paced
//     limits and slots never asked bring the text "1" with it.
//
// # What keeps the limit
//
// A meter never lets more be spent than its provider would have, whoever asks in whatever
// order. The queue only decides who. So safety is a matter of each meter alone, and of when
// turns are used. Some of it was found by playing histories to a strict provider, and a change
// may lose it without notice:
//
//   - `turn` of leave says how many permits of an ask are kept, not how many go back. Else a
//     message that comes twice would give back a turn that is in use.
//   - A turn is due at most way + horizon after Redis gave it: a second, at most. So where there
//     may be turns that Redis does not know (another server, lost data), the next one is due a
//     second from now at the earliest.
//   - Keep clockMicros per limit: who learns of a step of Redis's clock at one limit still has to
//     tell the others. Of a step back and one ahead between two asks the second may not be
//     noticed.
//   - Where costs are settled, a turn may be used up to 20 ms after it is due, and 20 ms more.
//     Other turns of paced limits may be used until the provider's bucket is full: there, what
//     goes back would overflow.
//   - Another limit makes no turn void and moves none. The new pace begins behind the turns that are
//     out, so it is in force within a horizon. A provider that changes its limit at that moment
//     refuses nothing. New turns must not begin among the old ones: both paces together overflow
//     a small bucket. Nor do turns of before go back to a slower limit.
//   - A limit that warms up, a quota and a rolling limit cannot know all that was lost with
//     the data: calls may come too early after that.
//
// # For people
//
// With its heartbeats a process sends a report per name, JSON that the scripts do not read: host, pid, who
// waits by key and flow, what was used by key. It stays for ten minutes after the process's death.
// The hash of [Index] has the names of all limits: a process writes its own there every ten
// minutes. Nothing depends on either.
// A message without a limit says that the process needs a name no more, and its report has `ended`.
// A last one that says so of the process signs it off: the scripts take it for dead.
//
// # Order
//
// A tag is Redis's time at which a call came, made unique. So tags that callers bring after
// a loss of data sort before new ones, and need no epoch. Whoever comes back with its tag is
// first. Where data was lost, or on another server, the places are forgotten: some are of calls that
// had their turns, and nobody asks for those. The others stand there anew when they ask next.
//
// The head of the queue has a grace to ask, once its permits are there. After that its process
// loses the places that it has among the first 64, and so does a process that is dead. The
// grace counts from the first moment at which the permits of that head were there, also if others
// have had them since. Else each turn of others would begin the grace anew, and a fleet behind a
// dead process would get one turn per grace.
//
// Who finds the head late tells its process, "overdue:<process>", and so does a call that leaves the
// place behind which the head stood, as it waits at another limit from now on. The first call of that
// process that waits there asks then. It is told once, until it asks.
//
// Of an item with many new calls that do not find the common path at most 16 are answered, so
// that no script takes long. The others ask again.
//
// # Shares
//
// A call may name its flow, such as a tenant of those that share the limit (`how` of ask, +16,
// with weight, urgent and flow behind it). From the first such call that waits, tags are those of
// start-time fair queueing. A call's tag is the later one of two: where the last call of its flow
// ends, and `virtual`, the highest tag that had a turn. It ends later by its cost times
// the limit's pace, divided by its weight. So who has had less comes first. Calls without a flow
// are a flow together. When nobody waits any more, all debts end.
//
// A place that is left is no debt. It leaves a gap in the stretch of its flow, and the calls of
// the flow behind it come forward when they ask next. Replies bring the tags that count now.
// An urgent call has the tag `virtual`, or where the last urgent one ends: together those have
// at most their part of the limit. The member of a place ends with weight and flow, so whoever
// removes it knows whom to refund.
//
// # Slots
//
// A limit of slots is how many calls are made at once. A turn holds its slots, under the number
// of its call, until [Leave] says that the call is done, or its process is dead. Nobody knows when
// that will be. So a process whose calls wait is told on the channel when there is room for the
// first n of them, "room:<process>:<n>", and asks then. If it does not come, whatever script is
// called next for the limit tells it again, and the next processes, too. The third number of the
// reach says in how many micros somebody is to look (look of leave), for that, or as a pause ends. The
// process that was told so looks a tenth of a second after that, unless a later reply says 0. One
// that does not hear news asks about every half second. A call that asks again holds nothing: so the
// slots of a reply that was lost are free.
//
// A message may be lost, and a copy of one may come late. So a process looks from time to time at
// which of its calls hold slots in the log. It sends `done` for those that do not need them. As it
// brings the clock of the moment at which it knew that, slots that were given later stay.
// Somebody may take slots away (free of leave). Then the score of the holder is that moment, less
// than 0. The holder cannot keep the slots any more, and hears of that when it looks. This ends with
// its `done`, or when the dead are looked for after ten minutes.
//
// A process whose last answered heartbeat is deadMicros old may have been taken for dead. Then, or
// if Redis has lost its data or is another server, it tells what its calls hold still (keep of
// leave). Where data was lost no slot is given until the new state is three seconds old, which is
// longer than that takes.
// On another server what was held is forgotten, as it may have missed which calls are done.
//
// # Bookings
//
// A call that is made later, perhaps by another process, such as a task of a queue, has an
// ID and is booked. Its tag is kept under the ID, and it holds neither permits nor a place.
// Its forecast counts the bookings before its own. When it is back it is before all that
// came after it. Nobody waits for a booking: a call that stands in the queue is told when its
// turn is if no other one comes back. One that does not come back counts no more once
// a call with an ID and a later tag had its turn. So 900 tasks that were deleted cost
// nothing.
//
// # State
//
// The hash of a limit is readable: nextFreeTicketMicros, fraction, limit, and so on. Its
// field plain is one text of the epoch, the run and the limit in force. It begins with ~ where
// a call may not take the common path, which is two commands and compares that text as a whole
// (common.lua). Versions grow with every write. The keys expire when the bucket is full and
// nobody waits: then there is nothing to know. Keys of another kind of limit are others: a
// limit that becomes a quota begins anew.
package lua
