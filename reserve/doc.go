// Package reserve makes a fleet of workers take turns at a rate-limited API. It
// is a blocking, queued, distributed rate limiter on Redis: a call takes a
// number, learns how long it has to wait, and waits; nothing is rejected.
//
//	limiter, err := reserve.New(client, reserve.Config{
//		Name:  "maps-api",
//		Limit: reserve.PerSecond(50),
//	})
//	...
//	if err := limiter.Wait(ctx); err != nil {
//		return err
//	}
//	// call the API now
//
// # What is guaranteed
//
// Calls leave as a token bucket of the limit's rate and burst allows, over all
// processes together. A strict provider with the same limit accepts them, if
// each arrives as long after its turn as the others. Real networks jitter, so
// leave some of the provider's burst to them: a limit of 100/s with burst 1
// before a provider that allows a burst of 10 bears 90 ms of jitter.
//
// # The states of a ticket
//
// A call that waits holds a ticket: a number of the line, and when it is due.
//
//	taken     The script gave a number. Up to Config.InlineBound away (1 s), it
//	          is final; else it enters the waiting list under an ID.
//	waiting   Half the bound before its turn, the process claims it. It gets the
//	          earliest number that nobody has claimed: its own or, where somebody
//	          crashed or is late, that of another, who gets this one for it.
//	          Long before, and rarely, it looks whether such a number was left
//	          lying; so a dead process holds up nobody who is awake.
//	final     The turn is fixed. The call sleeps until it is due and is made. A
//	          process that was suspended meanwhile (SIGSTOP, a closed lid) notices
//	          and claims another number instead of calling late.
//	back      The call gave up (its context ended): the number goes to the next
//	          call of the same process, and what returns to Redis is the last
//	          number that the process holds. There it makes the line shorter, or
//	          is given to the next who asks.
//
// In one process calls have their turns first come, first served.
//
// # How calls share round trips
//
// Most calls find a line on which nobody waits. They ride: while a trip to Redis is
// under way, those that come wait for the next one, and it takes all of them, up to
// 4,096 of a limit, and of up to 100 keys. One script call gives them a row of
// permits, first come, first served. A call that is alone begins a trip at once, and
// makes it itself if its context can not end. Where Redis is 2 ms away or more, trips
// overlap: the next one leaves when it has a sixteenth of the calls that are under way.
//
// A call whose turn is not due when its trip comes back stands in its queue, as does
// every call of a line that is not plain, because numbers wait or are free: these ask
// by takes, up to 256 at a time. Whoever leaves during a trip disturbs nobody: the
// number is for the next call, or goes back. A trip whose reply is lost is repeated, line by
// line, under the same numbers.
//
// With [Config.Lease] a process keeps some of the permits that are stored in the
// bucket for its next calls, as many as they needed of late. These are numbers of the
// line like any other: used once, and only while they fit in the bucket.
//
// # The one clock
//
// Only Redis's clock counts. The scripts read it once per call and reply with
// durations, which a process measures on its monotonic clock from the moment at
// which the reply should have arrived, going by the fastest of the last minute:
// late by the way back, and not by what held up this one reply. A turn whose
// reply came too late to use it is left, and another one claimed. Wall clocks of
// workers do not matter. If Redis's clock steps, by NTP or a failover, the line steps
// with it: back at once, and forward where it is by more than a second and the
// process that calls has not seen that time pass.
//
// # When the API asks for a pause
//
// [Limiter.Pause] moves the line: every turn comes later by what is still to go, those
// that are final too. A process in which calls wait holds one more connection, on which
// it hears of that, and times its turns anew; one that did not hear learns it from its
// next reply. A Reservation that nobody waits for follows when somebody does. So it is
// with [Limiter.SetLimit], which changes the limit of the whole fleet.
//
// # Several limits in one turn
//
// A call of a [Joint] needs permits of several limits: [All]. It does not stand in the
// queues of its process; one script looks for the first moment at which all limits let it
// through, and gives it the permits of all then, or of none. If that is further away than
// the bound, it waits in the limit where its turn comes last, and in those where it comes
// less than a second before; in the others it holds nothing, and takes what is there when
// it comes back, half the bound before the turn. Those that wait in several limits are
// served in the order of the one that holds them back.
//
// A limit of a Joint may be of any [Kind]. Those that are not paced keep no numbers: they
// count the calls that were let through, and remember when those that wait are expected.
// Where Redis lost its data, calls bring what they have last seen of the count.
// [JointReservation.Settle] corrects what a call has used.
//
// # When a reply is lost
//
// A call whose reply was lost is asked again, under the same number of the call,
// and finds the turn that it was given; an old copy that reaches Redis late is
// refused. Reserving, claiming and cancelling under an ID of your own may be
// repeated by anybody, also by another process.
//
// # When Redis is away
//
// Turns that are final are used. All other calls are asked again until some
// failures in a row open a circuit breaker; then a [Policy] decides: the calls
// go on at this process's share of the rate, wait, fail, or go through. How many
// processes share the rate, each has learned from the replies that it got while
// Redis was there. See [Outage].
//
// If Redis lost its data, or went back to an older copy of it, every process
// that calls brings what it has seen of the line, and the line goes on behind the
// last turn that any of them knows of, and those that others may have by then.
// Numbers of calls that wait are lost; they stand in the line again at once.
//
// The scripts and the keys are documented in package lua, so that workers in
// other languages can stand in the same line.
package reserve
