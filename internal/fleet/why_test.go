package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// situations are what may hold calls back. Each returns which key or booking is asked for.
var situations = []struct {
	what string
	make func(s *scene) (which string)
	why  fleet.Why
	also []fleet.Why
	says []string
	more string   // details, after the sentence
	held int64    // calls that are held back
	with []string // the evidence
}{
	{
		what: "nothing", why: fleet.WhyAvailable, says: []string{"turn now"},
		make: func(s *scene) string {
			s.paced(reserve.PerSecond(100).Burst(100))
			s.known(1)
			return ""
		},
	},
	{
		what: "a booking that is none", why: fleet.WhyAvailable, says: []string{`Nothing is known of "task-9"`},
		make: func(s *scene) string {
			s.paced(reserve.PerSecond(100).Burst(100))
			s.known(1)
			return "task-9"
		},
	},
	{
		what: "nobody has used it for ten minutes", why: fleet.WhyIdle, says: []string{"ten minutes"},
		make: func(s *scene) string {
			l := s.paced(reserve.PerSecond(100))
			s.until("it is in the index", func() bool { _, err := s.reader.Find(s.Context(), "api"); return err == nil })
			require.NoError(s, l.Close())
			require.NoError(s, s.client.Del(s.Context(), s.beats()...).Err())
			return ""
		},
	},
	{
		what: "a pause", why: fleet.WhyPaused, says: []string{"paused until", "for 1h30m.* more", `because: Retry-After of 60 s, says the API\.$`},
		make: func(s *scene) string {
			require.NoError(s, s.paced(reserve.PerSecond(100)).Pause(s.Context(), 90*time.Minute+30*time.Second, "Retry-After of 60 s,\r\n says the API."))
			s.known(1)
			return ""
		},
	},
	{
		what: "a pause that keys do not share", why: fleet.WhyPaused, says: []string{`more\. This does not hold back calls of its keys\.$`},
		make: func(s *scene) string {
			l := s.paced(reserve.PerSecond(100))
			require.NoError(s, l.For("acme").Wait(s.Context()))
			require.NoError(s, l.Pause(s.Context(), time.Hour, ""))
			s.known(1)
			s.until("the key is known", func() bool {
				survey, err := s.reader.Survey(s.Context(), api)
				return err == nil && len(survey.Keys) == 2
			})
			return ""
		},
	},
	{
		what: "a pause of a limit that somebody has set", why: fleet.WhyPaused, also: []fleet.Why{fleet.WhySet}, says: []string{"paused until"},
		make: func(s *scene) string {
			l := s.paced(reserve.PerSecond(100))
			require.NoError(s, l.SetLimit(s.Context(), reserve.PerSecond(1), 0))
			require.NoError(s, l.Pause(s.Context(), time.Minute, ""))
			s.known(1)
			return ""
		},
	},
	{
		what: "a limit that somebody has set", held: 3, why: fleet.WhySet, says: []string{"set to 1/hour by ann of ops, for 59m", "the configured limit is 10/hour"},
		make: func(s *scene) string {
			l := s.paced(reserve.PerHour(10))
			require.NoError(s, l.SetLimit(s.Context(), reserve.PerHour(1), time.Hour))
			s.waits(3, l.Wait)
			s.told(3)
			require.NoError(s, s.reader.SetBy(s.Context(), api, "", "ann\nof ops."))
			return ""
		},
	},
	{
		what: "a faster limit that somebody has set", why: fleet.WhyAvailable, says: []string{"turn now"},
		with: []string{`(?m)^The limit was set to 20/hour burst 10 by ann, until it is reset or set again; the configured limit is 10/hour\.$`},
		make: func(s *scene) string {
			l := s.paced(reserve.PerHour(10))
			s.known(1)
			require.NoError(s, l.SetLimit(s.Context(), reserve.PerHour(20).Burst(10), 0))
			require.NoError(s, l.Refill(s.Context()))
			require.NoError(s, s.reader.SetBy(s.Context(), api, "", "ann"))
			return ""
		},
	},
	{
		what: "a limit of a key that somebody has set", held: 3, why: fleet.WhySet, says: []string{`The limit of the key "acme" was set to 1/hour, until`},
		make: func(s *scene) string {
			l := s.paced(reserve.PerHour(10)).For("acme")
			require.NoError(s, l.Wait(s.Context()))
			require.NoError(s, l.SetLimit(s.Context(), reserve.PerHour(1), 0))
			s.waits(3, l.Wait)
			s.told(3)
			return "acme"
		},
	},
	{
		what: "a plan that somebody has overridden", held: 3, why: fleet.WhySet,
		says: []string{`The limit of the key "acme" was set to 50/hour, until`, "the configured limit is 100/hour"},
		make: func(s *scene) string {
			all, _ := s.process(reserve.Config{Limit: reserve.PerHour(10), LimitOf: func(string) (reserve.Limit, int64) { return reserve.PerHour(100), 1 }})
			l := all.For("acme")
			require.NoError(s, l.Wait(s.Context()))
			require.NoError(s, l.SetLimit(s.Context(), reserve.PerHour(50), 0))
			s.waits(3, l.Wait)
			s.told(3)
			return "acme"
		},
	},
	{
		what: "a plan that is not much", held: 3, why: fleet.WhyQueue, says: []string{"3 calls wait, and a new call would have its turn in about (59m|1h)"},
		make: func(s *scene) string {
			all, _ := s.process(reserve.Config{Limit: reserve.PerHour(10), LimitOf: func(string) (reserve.Limit, int64) { return reserve.PerHour(4), 1 }})
			l := all.For("acme")
			require.NoError(s, l.Wait(s.Context()))
			s.waits(3, l.Wait)
			s.told(3)
			look, err := s.reader.Look(s.Context(), api, 1, "acme")
			require.NoError(s, err)
			require.Equal(s, "4/hour", look.Rows[0].Limit)
			return "acme"
		},
	},
	{
		what: "a pause without a reason", why: fleet.WhyPaused, says: []string{`more \(by ann@desk\)\.$`},
		make: func(s *scene) string {
			require.NoError(s, s.paced(reserve.PerSecond(100)).Pause(s.Context(), time.Minute, "(by ann@desk)"))
			s.known(1)
			return ""
		},
	},
	{
		what: "a limit that somebody has raised", held: 3, why: fleet.WhyQueue, says: []string{"3 calls wait"},
		make: func(s *scene) string {
			l := s.paced(reserve.PerHour(1))
			require.NoError(s, l.SetLimit(s.Context(), reserve.PerHour(2), 0))
			s.waits(3, l.Wait)
			s.told(3)
			return ""
		},
	},
	{
		what: "processes with different limits", held: 3, why: fleet.WhyDiffer, says: []string{"1/hour in 1 process, 100/s in 1 process", "slowest"},
		make: func(s *scene) string {
			slow := s.paced(reserve.PerHour(1))
			s.known(1)
			fast, _ := s.process(reserve.Config{Limit: reserve.PerSecond(100)})
			s.waits(2, fast.Wait)
			s.waits(1, slow.Wait)
			s.told(3)
			return ""
		},
	},
	{
		what: "a process with another kind of limit", why: fleet.WhyKind, also: []fleet.Why{fleet.WhyPaused},
		says: []string{`^Calls of .*, process \d+ fail since \d`, `it is configured with 5/s rolling, and 100/s is in force, which is of another kind\.$`},
		more: "^Stop the processes whose calls fail, .* Use one kind in all processes",
		make: func(s *scene) string {
			l := s.paced(reserve.PerSecond(100))
			require.NoError(s, l.Pause(s.Context(), time.Hour, ""))
			s.known(1)
			s.unfit(1)
			return ""
		},
	},
	{
		what: "processes of v0.2", why: fleet.WhyVersion,
		says: []string{`^Calls of .*, process \d+ fail since \d`, `it speaks protocol 3, and processes of fleetpace v0\.2 use the limit\.$`},
		more: `^The two versions cannot share the limit\. Stop those of fleetpace v0\.2 \(desk, process 4711\), .* https://\S+/docs/upgrading\.md$`,
		with: []string{`2 processes are alive \(calls of 1 of them fail\)`, `fail since .*: it speaks protocol 3`},
		make: func(s *scene) string {
			s.v02(true)
			l, _ := s.process(reserve.Config{Limit: reserve.PerSecond(100), Logger: slog.New(slog.DiscardHandler)})
			require.ErrorIs(s, l.Wait(s.Context()), reserve.ErrVersion)
			s.v02(true)
			return ""
		},
	},
	{
		what: "processes of v0.2 that have just ended", why: fleet.WhyVersion,
		more: `^The two versions cannot share the limit\. Those have just ended or died: calls succeed a few seconds later\.$`,
		make: func(s *scene) string {
			s.v02(true)
			l, _ := s.process(reserve.Config{Limit: reserve.PerSecond(100), Logger: slog.New(slog.DiscardHandler)})
			require.ErrorIs(s, l.Wait(s.Context()), reserve.ErrVersion)
			s.v02(false)
			return ""
		},
	},
	{
		what: "processes of v0.2 that are gone", why: fleet.WhyAvailable, with: []string{"all living processes speak protocol 3"},
		make: func(s *scene) string {
			s.v02(true)
			s.v02(false)
			l, _ := s.process(reserve.Config{Limit: reserve.PerSecond(100), Logger: slog.New(slog.DiscardHandler)})
			s.until("calls succeed", func() bool { return l.Wait(s.Context()) == nil })
			s.until("the process is known", func() bool {
				answer, err := s.reader.Explain(s.Context(), api, "")
				require.NoError(s, err)
				return answer.Reason == fleet.WhyAvailable
			})
			return ""
		},
	},
	{
		what: "processes of an earlier protocol beside a later one", why: fleet.WhyAvailable,
		with: []string{`what protocol 4 has added is off until the processes of protocol 3 are gone: .*, process \d+`},
		make: func(s *scene) string {
			s.paced(reserve.PerSecond(100).Burst(100))
			s.known(1)
			s.later("new", 4)
			return ""
		},
	},
	{
		what: "processes of a protocol that is too late", why: fleet.WhyAvailable, with: []string{"all living processes speak protocol 3"},
		make: func(s *scene) string {
			s.paced(reserve.PerSecond(100).Burst(100))
			s.known(1)
			s.later("new", 5)
			return ""
		},
	},
	{
		what: "processes with another kind of limit", why: fleet.WhyKind,
		more: `^Calls of 2 other processes fail, too\. Stop the processes whose calls fail`,
		make: func(s *scene) string {
			s.paced(reserve.PerSecond(100))
			s.known(1)
			s.unfit(3)
			return ""
		},
	},
	{
		what: "a process with another kind of limit, and the others died", why: fleet.WhyKind,
		says: []string{`it is configured with 5/s rolling, and 100/s was in force until now, which is of another kind\.$`},
		more: `^The processes of that kind are gone: calls succeed a few seconds later\.$`,
		with: []string{`(?m)^1 process is alive \(calls of 1 of them fail\), 1 dead in`},
		make: func(s *scene) string {
			_, client := s.process(reserve.Config{Limit: reserve.PerSecond(100)})
			l := s.limiter(client, reserve.Config{Limit: reserve.PerSecond(100)})
			require.NoError(s, l.Wait(s.Context()))
			s.known(1)
			s.unfit(1)
			require.NoError(s, client.Close())
			survey, err := s.reader.Survey(s.Context(), api)
			require.NoError(s, err)
			for _, p := range survey.Processes {
				if p.Fails.IsZero() {
					require.NoError(s, s.client.ZAdd(s.Context(), s.beats()[0], redis.Z{Score: -1, Member: p.ID}).Err())
				}
			}
			return ""
		},
	},
	{
		what: "a flow that floods", held: 20, why: fleet.WhyFlow, says: []string{`^It is the queue: the flow "acme" has 19 of the 20 calls that wait\. It gets its share`},
		with: []string{`(?m)^20 calls wait, and a new call would have its turn`},
		make: func(s *scene) string {
			l := s.paced(reserve.PerHour(1))
			s.waits(19, l.Flow("acme").Wait)
			s.waits(1, l.Flow("other").Wait)
			s.told(20)
			return ""
		},
	},
	{
		what: "calls without a flow that flood, and slots", held: 20, why: fleet.WhySlots, also: []fleet.Why{fleet.WhyFlow}, says: []string{"All 1 slots"},
		more: "^A call took a slot", with: []string{`(?m)^one flow, of calls without a name, has 19 of the 20 calls that wait`},
		make: func(s *scene) string {
			l, _ := s.slots(1, 1)
			acquire := func(of *reserve.Limiter) func(context.Context) error {
				return func(ctx context.Context) error {
					r, err := of.Acquire(ctx, 1)
					if err == nil {
						r.Release()
					}
					return err
				}
			}
			s.waits(19, acquire(l))
			s.waits(1, acquire(l.Flow("other")))
			s.told(20)
			return ""
		},
	},
	{
		what: "two flows, of which none floods", held: 20, why: fleet.WhyQueue, says: []string{"20 calls wait"},
		make: func(s *scene) string {
			l := s.paced(reserve.PerHour(1))
			s.waits(18, l.Flow("acme").Wait)
			s.waits(2, l.Flow("other").Wait)
			s.told(20)
			return ""
		},
	},
	{
		what: "slots", held: 1, why: fleet.WhySlots, says: []string{"All 2 slots are held", ", process ", `\(tenant-1\)`, " for "},
		more: `^A call took a slot \S+ ago\.$`,
		make: func(s *scene) string {
			l, _ := s.slots(2, 2)
			s.waitsForSlot(l)
			return ""
		},
	},
	{
		what: "some slots", why: fleet.WhyAvailable,
		make: func(s *scene) string {
			s.slots(2, 1)
			s.known(1)
			return ""
		},
	},
	{
		what: "slots and a pause", held: 1, why: fleet.WhyPaused, also: []fleet.Why{fleet.WhySlots}, says: []string{"because: broken"},
		make: func(s *scene) string {
			l, _ := s.slots(2, 2)
			s.waitsForSlot(l)
			require.NoError(s, l.Pause(s.Context(), time.Minute, "broken"))
			return ""
		},
	},
	{
		what: "slots of the dead", why: fleet.WhyNobody, says: []string{"No process is alive in this Redis to make calls: 1 died"},
		make: func(s *scene) string {
			_, client := s.slots(2, 2)
			s.known(1)
			require.NoError(s, client.Close())
			s.silent(time.Second, true)
			return ""
		},
	},
	{
		what: "slots of the dead, with a living process that does not wait", why: fleet.WhyAvailable, says: []string{"turn now"},
		make: func(s *scene) string {
			_, client := s.slots(2, 2)
			s.known(1)
			require.NoError(s, client.Close())
			s.silent(time.Minute, true)
			l, _ := s.process(reserve.Config{Limit: reserve.Concurrent(2)})
			r, err := l.Acquire(s.Context(), 1)
			require.NoError(s, err)
			r.Release()
			s.until("a process lives", func() bool {
				survey, err := s.reader.Survey(s.Context(), api)
				return err == nil && survey.Alive() == 1
			})
			return ""
		},
	},
	{
		what: "bookings, and all processes have ended", held: 2, why: fleet.WhyNobody, says: []string{"2 calls are booked, permits are stored, and no process sends heartbeats"},
		make: func(s *scene) string {
			s.bookedWithoutWorkers()
			s.forgotten(false)
			return ""
		},
	},
	{
		what: "a booking by its ID, and all processes have ended", held: 1, why: fleet.WhyNobody, says: []string{"2 calls are booked, permits are stored"},
		make: func(s *scene) string {
			s.bookedWithoutWorkers()
			s.forgotten(false)
			return "task-2"
		},
	},
	{
		what: "bookings, and all processes have died", held: 2, why: fleet.WhyNobody, says: []string{"2 calls are booked, and no process is known to be alive in this Redis: 1 died"},
		make: func(s *scene) string {
			s.bookedWithoutWorkers()
			s.silent(time.Minute, true)
			return ""
		},
	},
	{
		what: "bookings, and no process has used the limit for ten minutes", held: 2, why: fleet.WhyNobody, says: []string{"for ten minutes, and 2 calls wait or are booked: start workers"},
		make: func(s *scene) string {
			s.bookedWithoutWorkers()
			s.forgotten(true)
			return ""
		},
	},
	{
		what: "nobody lives, and nobody waits", why: fleet.WhyNobody, says: []string{"No process is alive in this Redis to make calls: 1 died"},
		make: func(s *scene) string {
			l, client := s.process(reserve.Config{Limit: reserve.PerSecond(100)})
			require.NoError(s, l.Wait(s.Context()))
			s.known(1)
			require.NoError(s, client.Close())
			s.silent(time.Minute, true)
			return ""
		},
	},
	{
		what: "bookings far ahead, whose workers need not tell that they live", held: 2, why: fleet.WhyQueue, says: []string{"Earlier calls have used the permits, and 2 calls are booked. The turn of a new call depends on when those come back."},
		make: func(s *scene) string {
			s.booked("task-1", "task-2")
			require.NoError(s, s.client.Del(s.Context(), s.beats()[0]).Err())
			return ""
		},
	},
	{
		what: "nobody lives", held: 3, why: fleet.WhyNobody, says: []string{"3 calls wait", "no process is alive"},
		make: func(s *scene) string {
			s.abandoned(3)
			s.silent(5*time.Second, false)
			return ""
		},
	},
	{
		what: "all were found dead", held: 1, why: fleet.WhyNobody, says: []string{"1 call waits"},
		make: func(s *scene) string {
			s.abandoned(1)
			s.silent(time.Minute, true)
			return ""
		},
	},
	{
		what: "another limit", held: 3, why: fleet.WhyHeldBy, says: []string{`3 of 3 calls also need the limit "g/tokens/t1" and wait there\.$`},
		make: func(s *scene) string {
			client := s.server.Client(s)
			calls := s.limiter(client, reserve.Config{Group: "g", Limit: reserve.PerSecond(100)})
			tokens := s.limiter(client, reserve.Config{Group: "g", Name: "tokens", Limit: reserve.PerMinute(1)})
			both, err := reserve.All(calls, tokens.For("t1"))
			require.NoError(s, err)
			s.waits(4, func(ctx context.Context) error { return both.Wait(ctx) })
			s.until("the report says so", func() bool {
				a, err := s.reader.Explain(s.Context(), fleet.Name{Name: "api", Group: "g"}, "")
				return err == nil && strings.Contains(a.Text, "3 of 3 calls also need")
			})
			return ""
		},
	},
	{
		what: "a quota", held: 1, why: fleet.WhyUsedUp, says: []string{"2/month quota is used up"},
		make: func(s *scene) string {
			s.used(reserve.Quota(2, reserve.CalendarMonth))
			return ""
		},
	},
	{
		what: "a rolling limit", held: 1, why: fleet.WhyUsedUp, says: []string{`2/hour rolling is used up: .* in about .*, at \d\d:\d\d:\d\d `},
		make: func(s *scene) string {
			s.used(reserve.Rolling(2, time.Hour))
			return ""
		},
	},
	{
		what: "the queue", held: 5, why: fleet.WhyQueue, says: []string{"5 calls wait", "in about (5h5.m|6h0m)"},
		make: func(s *scene) string {
			s.waits(5, s.paced(reserve.PerHour(1)).Wait)
			s.told(5)
			return ""
		},
	},
	{
		what: "the queue of processes whose heartbeats are late", held: 5, why: fleet.WhySilent,
		says: []string{`^5 calls wait, and no process has sent a heartbeat for 2\.5s: in 500ms it is known whether one is alive\.$`},
		with: []string{`the last heartbeat came 2\.5s ago, from .*, process \d+`, "5 calls wait, and a new call would have its turn"},
		make: func(s *scene) string {
			s.abandoned(5)
			s.silent(2500*time.Millisecond, false)
			return ""
		},
	},
	{
		what: "a pause of processes whose heartbeats are late", held: 5, why: fleet.WhyPaused, also: []fleet.Why{fleet.WhySilent}, says: []string{"^It is paused until"},
		more: `^5 calls wait, and no process has sent a heartbeat for 2\.5s: in 500ms it is known whether one is alive\.$`,
		make: func(s *scene) string {
			s.abandoned(5)
			reader, err := s.reader.Limiter(api, reserve.PerMinute(1))
			require.NoError(s, err)
			require.NoError(s, reader.Pause(s.Context(), time.Hour, "red"))
			s.silent(2500*time.Millisecond, false)
			return ""
		},
	},
	{
		what: "slots of processes whose heartbeats are late", held: 1, why: fleet.WhySlots, also: []fleet.Why{fleet.WhySilent}, says: []string{"^All 2 slots are held"},
		more: `^A call took a slot \S+ ago\. 1 call waits, and no process has sent a heartbeat for 2\.5s: in 500ms it is known`,
		make: func(s *scene) string {
			l, client := s.slots(2, 2)
			s.waitsForSlot(l)
			require.NoError(s, client.Close())
			s.silent(2500*time.Millisecond, false)
			return ""
		},
	},
	{
		what: "permits that no call of processes takes whose heartbeats are late", held: 2, why: fleet.WhySilent,
		says: []string{`^2 calls wait, and no process has sent a heartbeat for 1\.5s: in 1\.5s it is known`},
		make: func(s *scene) string {
			l, client := s.process(reserve.Config{Limit: reserve.PerSecond(100).Burst(10)})
			require.NoError(s, l.Pause(s.Context(), time.Hour, ""))
			s.waits(2, l.Wait)
			s.told(2)
			require.NoError(s, client.Close())
			reader, err := s.reader.Limiter(api, reserve.PerSecond(100).Burst(10))
			require.NoError(s, err)
			require.NoError(s, reader.Resume(s.Context()))
			require.NoError(s, reader.Refill(s.Context()))
			s.silent(1500*time.Millisecond, false)
			return ""
		},
	},
	{
		what: "the queue beside bookings", held: 3, why: fleet.WhyQueue, says: []string{"It is the queue: 1 call waits, and 2 more are booked. The turn of a new call depends on when those come back"},
		make: func(s *scene) string {
			l := s.paced(reserve.PerHour(1))
			s.books(l, "task-1", "task-2")
			s.waits(1, l.Wait)
			s.told(1)
			return ""
		},
	},
	{
		what: "the rate", why: fleet.WhyQueue, says: []string{"Earlier calls have used the permits", "in about (5.m|1h0m)"},
		make: func(s *scene) string {
			s.paced(reserve.PerHour(1))
			s.known(1)
			return ""
		},
	},
	{
		what: "the queue of a key, though none of the others", held: 1, why: fleet.WhyQueue, says: []string{"1 call waits", "in about"},
		make: func(s *scene) string {
			l := s.paced(reserve.PerMinute(1))
			require.NoError(s, l.For("tenant").Wait(s.Context()))
			s.waits(1, l.For("tenant").Wait)
			s.until("the call waits", func() bool {
				look, err := s.reader.Look(s.Context(), api, 1, "tenant")
				return err == nil && len(look.Rows) > 0 && look.Rows[0].Calls == 1 && look.Rows[0].Waiting == 1
			})
			return ""
		},
	},
	{
		what: "a booking", held: 1, why: fleet.WhyQueue, says: []string{"number 3", "in about (2h5.m|3h0m)"},
		make: func(s *scene) string {
			s.booked("task-12", "task-11", "task-1")
			return "task-1"
		},
	},
	{
		what: "a booking, by a part of its ID", held: 1, why: fleet.WhyQueue, says: []string{"number 2", "in about (1h5.m|2h0m)"},
		make: func(s *scene) string {
			s.booked("asynq:{default}:1", "asynq:{default}:a*b", "asynq:{default}:axb")
			return "a*b"
		},
	},
	{
		what: "bookings of a pause that is over", held: 2, why: fleet.WhyBooked, says: []string{"Nothing holds a new call back. 2 calls are booked", "run their tasks now"},
		make: func(s *scene) string {
			l := s.paced(reserve.PerSecond(100).Burst(10))
			require.NoError(s, l.Pause(s.Context(), time.Hour, ""))
			s.books(l, "task-1", "task-2")
			require.NoError(s, l.Resume(s.Context()))
			s.until("there are permits", func() bool {
				look, err := s.reader.Look(s.Context(), api, 1, "")
				return err == nil && len(look.Rows) > 0 && look.Rows[0].State.Wait == 0
			})
			return ""
		},
	},
	{
		what: "bookings of callers of serve, of a pause that is over", held: 2, why: fleet.WhyBooked, says: []string{"2 calls are booked.*: callers of fleetpace serve ask again by themselves\\.$"},
		make: func(s *scene) string {
			l := s.paced(reserve.PerSecond(100).Burst(10))
			require.NoError(s, l.Pause(s.Context(), time.Hour, ""))
			s.books(l, "http:job-1", "http:job-2")
			require.NoError(s, l.Resume(s.Context()))
			s.until("there are permits", func() bool {
				look, err := s.reader.Look(s.Context(), api, 1, "")
				return err == nil && len(look.Rows) > 0 && look.Rows[0].State.Wait == 0
			})
			return ""
		},
	},
	{
		what: "what is no state", why: fleet.WhyCorrupt, says: []string{"not what it should be"},
		make: func(s *scene) string {
			s.paced(reserve.PerSecond(100))
			s.known(1)
			require.NoError(s, s.client.Set(s.Context(), s.keys("p", "")[0], "mine", 0).Err())
			return ""
		},
	},
	{
		what: "a field that is none", why: fleet.WhyCorrupt, says: []string{"version"},
		make: func(s *scene) string {
			s.paced(reserve.PerSecond(100))
			s.known(1)
			require.NoError(s, s.client.HSet(s.Context(), s.keys("p", "")[0], "version", "x\ny").Err())
			return ""
		},
	},
	{
		what: "bookings that are none", why: fleet.WhyCorrupt, says: []string{"WRONGTYPE"},
		make: func(s *scene) string {
			s.paced(reserve.PerSecond(100))
			s.known(1)
			require.NoError(s, s.client.Set(s.Context(), s.keys("p", "")[4], "mine", 0).Err())
			return "task-1"
		},
	},
	{
		what: "heartbeats that are none", why: fleet.WhyCorrupt, says: []string{"WRONGTYPE"},
		make: func(s *scene) string {
			require.NoError(s, s.client.Set(s.Context(), s.beats()[0], "mine", 0).Err())
			return ""
		},
	},
}

func TestWhy(t *testing.T) {
	server := redistest.New(t)
	for _, c := range situations {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, server)
			which, name := c.make(s), api
			if c.why == fleet.WhyHeldBy {
				name.Group = "g"
			}
			a, err := s.reader.Explain(t.Context(), name, which)
			require.NoError(t, err)
			if c.why == fleet.WhyHeldBy {
				require.Equal(t, "fleetpace why g/tokens/t1", a.Command)
			}
			t.Log(a.Text)
			for _, e := range a.Evidence {
				t.Log("  " + e)
			}
			require.Equal(t, c.why, a.Reason, "%+v", a)
			require.Equal(t, c.also, a.Also, "%+v", a)
			require.Equal(t, c.held, a.Held, "calls that are held back: %+v", a)
			for _, text := range c.says {
				require.Regexp(t, text, a.Text)
			}
			require.Regexp(t, c.more, a.More)
			require.NotRegexp(t, `(^|\s)docs/`, a.More, "a page is named by an address that opens")
			require.Equal(t, c.more == "", a.More == "", a.More)
			for _, text := range c.with {
				require.Regexp(t, text, strings.Join(a.Evidence, "\n"))
			}
			sentence(t, a.Text)
			require.Equal(t, strings.Contains(a.Text, "run their tasks now"), strings.Contains(a.Command, "asynq"), a.Command)
			if a.Reason == fleet.WhyNobody {
				require.NotContains(t, strings.Join(a.Evidence, "\n"), "would have its turn")
				look, err := s.reader.Look(t.Context(), name, 1, "")
				require.NoError(t, err)
				for i := range look.Rows {
					require.Equal(t, "not known", look.NewCall(&look.Rows[i]))
				}
			}
			require.Equal(t, which == "" && a.Key != "", strings.Contains(fmt.Sprint(a.Evidence), "this is of the key"), "who asks for no key is told which one")
		})
	}
}

// What nobody has used is no limit; a key that can be none is none.
func TestWhyUnknown(t *testing.T) {
	s := newScene(t, redistest.New(t))
	s.paced(reserve.PerSecond(100))
	s.known(1)
	_, err := s.reader.Find(t.Context(), "nope")
	require.ErrorIs(t, err, fleet.ErrUnknown)
	_, err = s.reader.Explain(t.Context(), fleet.Name{Name: "nope"}, "")
	require.ErrorIs(t, err, fleet.ErrUnknown)
	require.False(t, fleet.IsAway(err))

	_, err = s.reader.Explain(t.Context(), api, string(make([]byte, 600)))
	require.ErrorIs(t, err, reserve.ErrInvalid)
	require.False(t, fleet.IsAway(err))
}

// Where Redis does not answer, the answer says what processes do meanwhile.
func TestWhyAway(t *testing.T) {
	t.Parallel()
	private := redistest.Private(t, redistest.PrivateOptions{})
	s := newScene(t, private.Server)
	s.paced(reserve.PerSecond(100))
	s.known(1)
	s.explain("")
	private.Kill()
	_, err := s.reader.Explain(t.Context(), api, "")
	require.Error(t, err)
	require.True(t, fleet.IsAway(err), err)
	a := s.reader.Away("api", "r:6379", err)
	require.Equal(t, fleet.WhyAway, a.Reason)
	require.Contains(t, a.Text, "Redis at r:6379 does not answer this command; if it is the fleet's Redis, each process follows its outage policy.")
	require.Contains(t, a.Do, "Check --redis")
	require.Contains(t, fmt.Sprint(a.Evidence), "refused")
	sentence(t, a.Text)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.reader.Explain(ended, api, "")
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, fleet.IsAway(err))
	require.False(t, fleet.IsAway(nil))
	require.False(t, fleet.IsAway(errors.New("something else")))
}
