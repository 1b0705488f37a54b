// Package lua holds the scripts that keep the line of one limit in Redis: one
// per verb, atomic, and with no other dependency than Redis 6.2 or later,
// Valkey, or miniredis. They are a protocol: a worker in any language may call
// them and share a limit with workers that use package reserve.
//
// # The line
//
// A limit lets one permit become available every intervalMicros, and keeps up
// to burst of them for later. Permits are numbered in the order in which they
// become available; a ticket of cost n whose number is e owns the permits
// (e-n, e] and has its turn when permit e is due:
//
//	due(e) = anchorMicros + (e - anchor) * intervalMicros
//
// A taken ticket is one of:
//
//	final     its turn is near or fixed: the caller sleeps the rest and calls
//	waiting   its turn is further away than boundMicros: it stands in the waiting
//	          list under an ID and is claimed shortly before its turn
//	free      it was given back and waits for the next take or claim
//
// Four rules keep a strict token bucket of the same rate and burst satisfied:
// every permit is used once; never before it is due; only while it fits in the
// bucket, that is while now <= due(e-n) + burst*intervalMicros; and none is
// given out below the floor.
//
// What the verbs do, on a state that was first brought up to now (see below):
//
//	take       The number is that of the earliest free block of permits that is
//	           large enough and fits (its first permits; the rest stays free),
//	           else tail + cost. A wait above maxWaitMicros is refused. A wait
//	           above boundMicros enters the waiting list; any other is final.
//	           With a boundMicros of -1 none is final, not even a stored permit:
//	           for a call that is made by somebody who is not awake yet.
//	claim      Candidates: the claimer's own number, the earliest number of the
//	           same cost in the waiting list that is not dead, and a free one;
//	           without an own number also a new one. The earliest candidate
//	           wins. Is its wait above boundMicros, nothing changes (a claimer
//	           without a number gets a new one, as a take does, and waits). Else
//	           it is final; its former holder gets the claimer's number; a number
//	           that the claimer no longer needs is given back. If it no longer
//	           fits, the line is wound back: anchorMicros += ceil(now - due(e)),
//	           and the floor becomes e - cost.
//	asked      An ID that asks again gets its final ticket again while that fits;
//	again      after that, up to boundMicros after its turn, if no later number
//	           became final: then the line is wound back to it. When a final ticket
//	           joins the claimed list, that forgets the numbers below
//	           min(final, floor(tail - (due(tail) - now)/intervalMicros - burst)).
//	           Whoever made the call and wants to use the ID once more removes it
//	           from the claimed list before: ZREM p:{n}:claimed:k <cost>:<id>.
//	cancel     At the tail the line steps back over the ticket, and over free
//	           blocks that are then last; else the ticket becomes a free block
//	           if it still fits, and is lost if not. Nothing goes back whose
//	           permits lie below the floor or have all overflowed
//	           (now > due(e) + burst*intervalMicros). The final mark is never
//	           above tail; and when its own ticket went back, or waits again
//	           because its caller wants to keep its place, it sinks below that,
//	           and further past tickets that are free or waiting: none of them
//	           was used.
//	charge     A process is back that could not reach Redis. Call foremost the last
//	           permit before the first number beyond the final mark that waits or is
//	           free and not below the floor; the tail, if there is none. (Numbers
//	           before it were dropped.) If permit foremost + 1 does not fit any more,
//	           the line is moved so that it is due now, as a claim of it would have
//	           done. Then min(max(0, idle - the idle that it remembers), spent)
//	           permits of idle pay. The debt that is left, min(most, max(least,
//	           spent - those)), is paid by numbers up to the final mark that nobody
//	           has claimed and that are not dead: first free blocks, then tickets that
//	           wait, at most 64 of each, by number; what one holds beyond the debt is
//	           a free block. The line is moved later by one interval for each permit
//	           that this does not pay. If nobody called in
//	           the second half of its absence, all were away: resumeMicros becomes
//	           now + graceMicros, the floor becomes the final mark, and the line is
//	           moved later so that permit foremost + 1 is not due before. The idle
//	           that it remembers counts for the same epoch only, else it is 0.
//	pause      The provider said when to come back. gone is the last permit that is due
//	           by now, but before the first permit of each number that waits and is
//	           not dead, and never below the floor. Permit gone + 1 is not due before
//	           pauseMicros, and so the bucket is empty then: the line is moved later
//	           as far as it takes. Final tickets move along (gen counts that), but for
//	           those whose permits do not all come after gone: these are used up. The
//	           floor becomes gone, and tail and the final mark are at least that. Of
//	           several pauses the one that ends last counts.
//	resume     The line is moved earlier by what is still to go of the pause, at most by
//	           as much as that had moved it. Final tickets move along.
//	set        A limit for everybody, until it ends: setIntervalMicros and setBurst are
//	           in force instead of the interval and burst of callers. When it begins or
//	           ends the bucket overflows by the limit of before, the floor is at least
//	           available - burst of it, and then permit tail is due at since +
//	           ceil((due(tail) - since) / i * i'), from the end of a pause on if that is
//	           later, where since is now, or its end. Final tickets move along. A ticket
//	           that costs more than the burst fits until it is due; a request for one is
//	           refused.
//	inspect    Changes nothing.
//	quick      Several limits of one limiter in one call, for the usual take. The next
//	           permits in a row, final as by a take of that many with keep 0, if the
//	           limit is plain for this caller; else -1, and nothing changes: take it.
//	           Extra permits come last, and only if all are due now. For them the
//	           bucket is smaller by lastingMicros: what overflows of that is gone, so
//	           that the others fit for at least so long.
//
// To move the line later is to add to anchorMicros, never beyond a tail that is
// due in 100 years. But for a pause or a limit that is set, final tickets keep their
// moment, and so nothing before them is
// used after them: the floor becomes the final mark. Wherever time passes that
// nobody used (an overflow, a line that is wound back or late), idle grows by the
// permits of that time.
//
// # Up to now
//
// Before anything else, in this order:
//
//	no state   tail and final are 0, due at now + max(reachMicros + laterMicros,
//	           -burst*intervalMicros): where the last final ticket was due that
//	           the caller knows, or has to expect, or a full bucket. idle is
//	           floor(-reachMicros/intervalMicros - burst), if that is positive.
//	           The rest is left out.
//	clock      If Redis's clock went back since the last call, the line goes back
//	went back  with it: anchorMicros, resumeMicros and pauseMicros -= seenMicros - now. What
//	           passed since that call is not known, so the line is late by it;
//	           final tickets are not: the floor becomes the final mark.
//	clock went The least of now - seenMicros of the state and now - clockMicros of
//	ahead      the caller is what neither the fleet nor the caller saw passing. If
//	           it is more than a second, the line is moved later by it, and
//	           resumeMicros and pauseMicros with it.
//	data lost  The caller remembers another epoch: if its last final ticket is due
//	           after due(final), the line is moved later by the difference. The
//	           same epoch, but the state does not know the caller's last call: it
//	           was rolled back. The line is moved likewise, the floor becomes the
//	           final mark, and the epoch becomes now, so that all others bring
//	           what they remember too. The state does not know the last call of a
//	           member if seenMicros of the caller is above that of the member's
//	           field, or of that of its process; or, where both have none, or one from before the clock went
//	           back (ahead of the state, or of clockMicros by more than a second),
//	           above that of the state, or, unless its process has a field, less than
//	           a minute ago. Never while the
//	           clock is behind seenMicros of the caller, and not for a repeated
//	           call: the state holds it.
//	rate       If it changed from i to i', permit tail is now due at
//	           from + ceil((due(tail) - from) / i * i'), or in 100 years if that
//	           is earlier, where from is the end of a pause, or now. Until resumeMicros, permit foremost + 1 (see charge) is
//	           not due before.
//	overflow   If due(tail) < low with low = now - burst*intervalMicros, then
//	           permit tail is the new anchor, due at low, and idle grows by
//	           ceil((low - due(tail)) / intervalMicros). If tail is the final mark,
//	           these permits are skipped, that is added to both first (a ticket that
//	           is wound back in the same call takes that back); else numbers may
//	           wait, the line is late with them, and the floor becomes the final
//	           mark.
//
// # Plain
//
// A limit is plain when a new ticket simply comes after the last one: tail is final,
// nothing is free, nobody waits for the end of an outage or a pause, and no limit is set
// for all. Every call but inspect
// and quick writes that into the state, with its epoch, live, and the limit, in the
// very words of the caller. quick looks at that first: what the caller says of the
// line must be that. Then it looks at whether the caller's field begins as the caller
// left it (or is not there, if the caller never made a call), and at the clock: it must
// not have gone back, nor ahead by more than a second that neither the fleet nor the
// caller saw passing. So there is nothing to bring up to now but the overflow. The
// other fields of the state it does not look at.
//
// A reply of quick does not say how many processes are live. When others than the
// caller come or go, that is counted anew, and so its next quick gives nothing: the
// take that follows tells.
//
// quick counts nobody, and lets the state live longer only where its bucket takes more
// than 50 seconds to fill. So it is for those who had the reply of a take or claim in
// the last thirty seconds, by this or another member of the process. These takes count:
// of a fleet that makes no other calls, one hears of a process that is gone within
// 80 seconds of its last call, and the others with their next quick.
//
// # Final tickets that move
//
// A caller that holds a final ticket sleeps and calls; it does not ask again. A pause, a
// resume, and a limit that is set or ends move such turns. Every reply but those of quick, cancel and inspect says how
// often that was done (gen), and where the line is since: permit e is due reachMicros +
// (e - final)*interval from then on, so a caller that knows another gen, or another
// epoch, can tell when its tickets of replies before that are due now. In a pause, one
// is used up if its first permit is due before the end of that.
//
// So that it need not call for that, the script publishes the same on the channel that
// whoever paused or set last has named: the thirteen numbers that replies begin with and the key of the state,
// with a space between any two. Who does not hear it in time calls at the time it was
// told: inside of a pause, or one call per ticket more than the limit after it. No turn is
// final for longer than boundMicros, which bounds that.
//
// # Calls that are repeated
//
// A member that numbers its calls may repeat its last one when the reply was lost,
// in whatever order the copies come to Redis. A copy of an earlier call replies
// STALE. The last one again:
//
//	take       Requests with keep 0 that became final get their numbers again while
//	           these fit; if the last of them is the final mark, the line is moved
//	           so that the first of its row fits. Those that wait are found by ID.
//	           What is left was refused, and is again, if it has a maxWaitMicros; else
//	           it is served as new, as is what does not fit any more.
//	claim      finds its final ticket by ID, see above.
//	cancel     changes nothing; it says which tickets keep their place. So does one
//	           by ID whose epoch is not the state's.
//	           By number it changes nothing either if the state does not know the
//	           member: it was silent for so long that nobody knows whether it is a copy.
//	charge     settles what was spent beyond what its copies settled already, in any
//	           order of the copies. `least` is at most that, and `most` is for all
//	           copies together.
//
// A quick whose reply was lost is repeated as a take of the same permits, under its
// serial. Of what it gave that finds all but the extra permits, and nothing where it
// was not carried out.
//
// Where the permits begin stands in the member's field as "<index>=<permit before>;"
// for each request, counted from 1, whose permits do not follow those of the request
// before it; <index>=- says that there are none from there on. A quick leaves "1=<permit
// before>;". A charge leaves "<spent> <charged>", of all its copies. A call without
// a serial leaves what stands there, any other removes it.
//
// # Several limits
//
// turn, leave and settle are for calls that need permits of several limits, of any kinds;
// line.lua and several.lua stand before them. Each limit has its four keys, and arguments of
// its own: turn.lua names them. They know calls by ID only, and no serial: a paced limit
// takes the first eight arguments of take with a serial of 0.
//
// Of each limit they ask from when on it lets a call through that comes at a moment:
//
//	paced      From due(e) on, or the moment if that is later, until its permits do not
//	           fit any more. e is the number that the ID has, if it fits at the moment
//	           (or waits beyond the final mark); else the lowest that fits then of the
//	           earliest of its cost that somebody waits under, those in free blocks, and
//	           tail + cost. Permits between the tail and a new number become a free block.
//	           A new ticket that costs the whole burst fits when it is due and at no other
//	           time: where nobody waits, the moment may be up to an interval after the due
//	           of the number before, and the line is moved later to it. One out of a free
//	           block may be used between two dues to meet limits that can not agree with it:
//	           it owns the permits of both numbers, goes by the later one, and stands in the
//	           claimed list with a cost of one more.
//	quota      Within a window [begin + marginMicros, end - marginMicros) that has as many
//	           permits left as it costs, after those of calls that are expected before it.
//	           An ID that has a turn keeps it for as long as the window of that.
//	rolling    When so many of the calls before have left the window that its permits are
//	           within the limit. The moment of a turn counts, used or not, until it is left
//	           or settled. An ID whose moment has passed gets another.
//	warming    When the permits of the call before are paid for: nextMicros. While nobody
//	           calls, up to most permits are stored, one every periodMicros / most, where
//	           threshold = periodMicros / (2*intervalMicros) and most = threshold +
//	           2*periodMicros / (4*intervalMicros); at first all are. A call takes
//	           stored permits first. Its cost moves nextMicros: intervalMicros per permit,
//	           and for stored ones above the threshold the area below a line that rises
//	           from there to 3*intervalMicros at most.
//
// and do:
//
//	turn       Looks for the first moment that suits all limits, from now on, by asking
//	           each from when on in turn. Lines that do not agree after four times may give up
//	           parts of an interval, from now on again; after four more they take, besides what
//	           is due, only new numbers, with which they agree to each later moment. If the
//	           moment is no further away than boundMicros (and maxWaitMicros) it is final in
//	           all limits: the call has the permits of all. Else, or if they do not agree after
//	           eight more times, it waits until the latest moment at which one of the
//	           limits alone would let it through, or the moment found, if that is later. It
//	           stands in the waiting lists of the limit that says the latest, and of those
//	           that say less than a second before it, and gives back what it has in the
//	           others. A wait above maxWaitMicros is refused, and leaves nothing. In a paced
//	           limit one that takes the number of somebody who waits gives its own for it, or
//	           the next one, as in a claim. Who is expected in a list of another kind and
//	           does not come for five seconds is forgotten.
//	leave      Gives back what the ID has: a number, as a cancel does; of a quota the
//	           permits of the window of its turn; of a rolling limit its entry in the log; of
//	           one that warms up one interval per permit, if no call came after it.
//	settle     A call used more or less than its cost, at atMicros, its turn. A quota
//	           and a rolling limit count that instead. One that warms up moves
//	           nextMicros by an interval for each permit of the difference: later always, earlier
//	           if no call came after it. A line is moved later by an interval for each
//	           permit more. For permits less it is moved earlier, as far as a strict bucket
//	           still has them: where it held at most h of its burst permits since atMicros,
//	           that is min(cost - spent, burst - h).
//	crests     For that a line of which a call was ever settled keeps its crests: at each
//	           ticket that becomes final how many permits are stored at its turn before it
//	           takes its own, rounded up, as "<micros>:<permits>", in order of time, without
//	           those that a later one reaches; h is the greatest from atMicros on, and
//	           what is stored now. At most 24 are kept (of the first two the higher one then
//	           counts for the time of both), and those of the last thirty minutes. So the
//	           first settle of a line gives nothing back, nor one of a call from before it,
//	           or of one longer ago than that. Such a line is never plain. Final tickets keep
//	           their moment; that the line moved is told (gen) once it makes up 0.1 s.
//
// What the reply says of a limit that is not paced, known, is numbers with a space between
// any two: its epoch, seenMicros, and of a quota pairs of the begin of a window and what is
// used of it; of a rolling limit what is used and the last moment; of one that warms up the
// stored permits and nextMicros. If a state is new, or has the caller's epoch and an older
// seenMicros, data was lost, or the state expired: then of each the greater one counts, and
// what is missing from a log enters it at its last moment. Of a limit that warms up the
// caller's stored permits count, and those that were stored since its nextMicros: after a
// long silence that is all of them, as at first.
//
// # Processes
//
// A member makes one call at a time. A process that makes several at once has a member
// for each: "name", "name/1", "name/2" … What stands before the first slash names the
// process; each member remembers for itself. A process is live if one of its
// members called less than a minute ago. They are counted when a new process calls, and
// by the first call but quick that is made ten seconds after the last count or more;
// fields of other members are removed then. A member must give its name in every call
// whose reply it remembers.
//
// A waiting number is dead when it can never be used: its permits lie below
// the floor (e - cost < floor), or it no longer fits and a later number became
// final (e <= final). A claim drops the dead ones; their holders get a new
// number when they claim. Free blocks that no longer fit are dropped by whoever
// looks for a new number. To bound its work, a call looks at no more than the
// first 64 entries of a list: a number that stands behind 64 others of no use to
// it is not found.
//
// # Keys
//
// All keys of one limiter carry one hash tag, its name, so that they live in
// one slot of a cluster. For prefix p, name n and key k (a tenant, a host; left
// out with its colon for the limit as a whole):
//
//	p:{n}:line:k     hash        the state, see below
//	p:{n}:waiting:k  sorted set  "<cost>:<id>" by number, only while something waits
//	p:{n}:free:k     sorted set  "<cost>:<number>" by number, only while something is free
//	p:{n}:claimed:k  sorted set  "<cost>:<id>" by number: final tickets that may be asked for again;
//	                               "!<cost>:<id>": who had another number, by the one that it has
//	                               now, or by less the one that it had, where that passed unused
//
// A limit that calls may need together with others has a group g, which is the hash tag
// then: p:{g}/n:line:k and so on. Limits of one call must have the same tag.
//
// The state, readable with HGETALL:
//
//	nextFreeTicketMillis  Unix milliseconds at which permit tail is due, rounded up;
//	                      for people: it is written, never read
//	plain                 "<epoch> <live> <intervalMicros> <burst>", if the limit is
//	                      plain as the last call but quick left it, else "no"; see above
//	tail                  the last permit given out
//	anchor, anchorMicros  a permit and the moment at which it is due
//	intervalMicros        micros per permit, may be fractional
//	burst                 permits
//	final                 the highest number that became final
//	floor                 permits up to here can not be used any more
//	free                  blocks in the free list
//	seenMicros            Redis's time at the last call
//	epoch                 Redis's time when the state was made, or rolled back
//	live                  processes, when last counted
//	countedMicros         Redis's time then
//	idle                  permits that nobody used, less those that paid for a charge
//	resumeMicros          nothing is due before, after an outage; 0: there was none
//	m:<member>            "<seenMicros> <serial> <numbers>" of its last call; see above
//
// and, where they were ever needed:
//
//	pauseMicros           nor before, as the provider said; 0: there was no pause
//	pausedMicros          by how much that pause moved the line
//	reason                of it, in the words of whoever paused
//	setIntervalMicros     of a limit that is set for all; 0: none is
//	setBurst              of that limit
//	setUntilMicros        when it ends; 0: when it is set again
//	channel               on which turns that move are told of
//	gen                   how often final tickets were given other turns
//	settledMicros         when a call was settled first; 0: none was
//	crests                "<micros>:<permits> ...", see above
//	untoldMicros          by how much calls that were settled moved the line since gen
//
// Limits that are not paced have the same keys, and a state of their own:
//
//	epoch, seenMicros     as above
//	w:<begin>             of a quota: permits used in the window that begins then
//	used                  of a rolling limit: the permits of its log
//	stored, nextMicros    of one that warms up, see above
//	lastMicros            the turn of its last call
//
// Their waiting list has "<cost>:<id>" by the moment at which it is expected, the claimed
// list of a quota and of one that warms up by that of its turn, and the free list of a
// rolling limit is the log of its calls. They live for 91 seconds after a call, and after
// the end of the last window that was named, the last call's time in the window, or the
// period after nextMicros.
//
// The state expires one second after the bucket is full again, counted from the
// last number given out and in whole milliseconds; so an expired state and a full
// bucket are the same. While live is not 0, it also lives for 91 seconds after a
// call, which is a minute after a quick that comes up to thirty seconds later. A quick
// after which the bucket is full within 50 seconds leaves the expiry as it is: so it
// may be ten seconds more on its way. Lists live longer than the state, as a call that
// does not look at them leaves their expiry: when one is written, it expires by the
// time later in which the bucket fills, and by 91 seconds more while live is not 0.
// Whoever makes a new state empties them.
//
// # Units and clock
//
// Micros are microseconds; moments are Unix time on Redis's own clock, read
// once per script with TIME. Replies carry durations only, rounded up, so that
// no other clock matters. Numbers, costs and bursts are whole permits below
// 2^53. Intervals are at least 1 microsecond. A line, and the time to fill a
// bucket, is at most 100 years long.
//
// # Errors
//
// A script that replies with an error has changed nothing. quick replies with one only
// where an argument of all its limits is wrong: of any other it gives nothing, and the
// take that follows says why.
//
//	BADARG    an argument is wrong; names it and its value
//	BADSTATE  a field of the state is not what it must be; names it and its value
//	STALE     a copy of an earlier call than the member's last
//	WRONGTYPE a key holds something else
//
// # From the command line
//
// In the folder of the scripts, with a limit of 1 per second and a burst of 2:
//
//	$ redis-cli --eval <(cat line.lua take.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 -2000000 0 0 0 me 1 1000000 1 -1 job-1 1
//	$ redis-cli --eval <(cat line.lua claim.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 0 0 0 0 '' 0 1000000 1 job-2
//	$ redis-cli --eval <(cat line.lua cancel.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 0 0 0 0 '' 0 1 job-2 0 0
//	$ redis-cli --eval <(cat line.lua charge.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 0 0 0 0 '' 0 3 3 0 0 0 3
//	$ redis-cli --eval <(cat line.lua inspect.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2
//	$ redis-cli --eval quick.lua p:{n}:line , 1000000 2 0 0 "$(redis-cli hget p:{n}:line epoch) 1" me "$(redis-cli hget p:{n}:line m:me | cut -d ' ' -f 1,2) " 2 1 10000000
//	$ redis-cli --eval <(cat line.lua pause.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 0 0 0 0 '' 0 5000000 'Retry-After: 5' p:{n}:news
//	$ redis-cli --eval <(cat line.lua resume.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 0 0 0 0 '' 0 p:{n}:news
//	$ redis-cli --eval <(cat line.lua set.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 0 0 0 0 '' 0 2000000 1 60000000 p:{n}:news
//
// Of two limits of the group g, 1 per second with a burst of 2, and 100 in any minute:
//
//	redis-cli --eval <(cat line.lua several.lua turn.lua) p:{g}/a:line p:{g}/a:waiting p:{g}/a:free p:{g}/a:claimed p:{g}/b:line p:{g}/b:waiting p:{g}/b:free p:{g}/b:claimed , 1000000 -1 job-1 paced 1 -1 0 8 1000000 2 -2000000 0 0 0 '' 0 rolling 1 -1 0 3 100 60000000 ''
//	redis-cli --eval <(cat line.lua several.lua leave.lua) p:{g}/a:line p:{g}/a:waiting p:{g}/a:free p:{g}/a:claimed p:{g}/b:line p:{g}/b:waiting p:{g}/b:free p:{g}/b:claimed , job-1 paced 1 -1 0 8 1000000 2 0 0 0 0 '' 0 rolling 1 -1 0 3 100 60000000 ''
package lua
