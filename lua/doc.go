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
// What the verbs do, on a state that was first brought up to now:
//
//	up to now  If Redis's clock went back since the last call, the line goes
//	           back with it: anchorMicros -= seenMicros - now. What passed since
//	           that call is not known, so the line is late by it; final tickets
//	           are not, and so nothing before them is used after them: the floor
//	           becomes the final mark.
//	           If the rate changed from i to i', permit tail is now due at
//	           now + ceil((due(tail) - now) / i * i'), or in 100 years if that
//	           is earlier.
//	           If the bucket overflowed, due(tail) < low with
//	           low = now - burst*intervalMicros, then
//	           tail += ceil((low - due(tail)) / intervalMicros), and permit
//	           tail is the new anchor, due at low.
//	           No state: tail is 0, due at now + max(reachMicros, -burst*intervalMicros).
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
//	inspect    Changes nothing.
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
//	p:{n}:claimed:k  sorted set  "<cost>:<id>" by number: final tickets that may be asked for again
//
// The state, readable with HGETALL:
//
//	nextFreeTicketMillis  Unix milliseconds at which permit tail is due; for
//	                      people: it is written, never read
//	tail                  the last permit given out
//	anchor, anchorMicros  a permit and the moment at which it is due
//	intervalMicros        micros per permit, may be fractional
//	burst                 permits
//	final                 the highest number that became final
//	floor                 permits up to here can not be used any more
//	free                  blocks in the free list
//	seenMicros            Redis's time at the last call
//	epoch                 Redis's time when the state was made
//
// Keys expire one second after the bucket is full again, counted from the last
// number given out and in whole milliseconds; so an expired state and a full
// bucket are the same.
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
// A script that replies with an error has changed nothing.
//
//	BADARG    an argument is wrong; names it and its value
//	BADSTATE  a field of the state is not what it must be; names it and its value
//	WRONGTYPE a key holds something else
//
// # From the command line
//
// In the folder of the scripts, with a limit of 1 per second and a burst of 2:
//
//	$ redis-cli --eval <(cat line.lua take.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 1000000 -2000000 1 -1 job-1 1
//	$ redis-cli --eval <(cat line.lua claim.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 1000000 -2000000 1 job-2
//	$ redis-cli --eval <(cat line.lua cancel.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2 1 job-2 0 0
//	$ redis-cli --eval <(cat line.lua inspect.lua) p:{n}:line p:{n}:waiting p:{n}:free p:{n}:claimed , 1000000 2
package lua
