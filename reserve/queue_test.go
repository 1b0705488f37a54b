package reserve

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever happens in whatever order: no ticket is lost or given twice, waiters
// have their turns in order of arrival, none before its ticket is due, and at
// rest there are as many tickets as waiters.
func TestQueueKeepsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epoch := time.Unix(1000, 0)
		now := epoch
		q := &queue{cost: 1}
		var present []*waiter // in order of arrival
		var asking, claiming []*ticket
		var returned, granted []*ticket
		number := int64(0)

		settle := func() {
			for s := q.surplus(); s != nil; s = q.surplus() {
				returned = append(returned, s)
			}
			for w, k := q.next(now); w != nil; w, k = q.next(now) {
				require.False(t, k.due.After(now), "a turn before it was due")
				require.Same(t, present[0], w, "out of order")
				present = present[1:]
				granted = append(granted, k)
				w.finish(k, nil)
			}
		}
		actions := map[string]func(*rapid.T){
			"join": func(*rapid.T) {
				w := newWaiter(time.Time{})
				q.join(w)
				q.asking++
				number++
				present = append(present, w)
				asking = append(asking, &ticket{cost: 1, number: number})
			},
			"answer": func(t *rapid.T) {
				if len(asking) == 0 {
					t.Skip("nothing asked")
				}
				k := asking[0]
				asking = asking[1:]
				k.given = now
				k.due = epoch.Add(time.Duration(k.number) * time.Second)
				k.final = k.due.Sub(now) <= time.Second
				q.asking--
				q.add(k)
			},
			"leave": func(t *rapid.T) {
				if len(present) == 0 {
					t.Skip("nobody waits")
				}
				i := rapid.IntRange(0, len(present)-1).Draw(t, "who")
				present[i].leave()
				present = slices.Delete(present, i, i+1)
			},
			"claim": func(*rapid.T) {
				claiming = append(claiming, q.claimable(now, time.Second/2, time.Second, oversleep, 4)...)
			},
			"look": func(t *rapid.T) {
				claiming = append(claiming, q.lookable(now, 3, 4)...)
			},
			"claimed": func(t *rapid.T) {
				if len(claiming) == 0 {
					t.Skip("nothing claimed")
				}
				k := claiming[0]
				claiming = claiming[1:]
				q.claiming--
				k.final = rapid.Bool().Draw(t, "final")
				q.add(k)
				q.looked(now, []*ticket{k}, time.Second, time.Second/4)
			},
			"pass": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) {
				settle()
				held := len(q.final) + len(q.waiting)
				require.Equal(t, int(number), held+len(asking)+len(claiming)+len(returned)+len(granted),
					"a ticket was lost or made up")
				require.Equal(t, len(present), q.waiters.Len())
				require.GreaterOrEqual(t, held+len(asking)+len(claiming), len(present),
					"a waiter without a ticket to come")
				if len(asking)+len(claiming) == 0 {
					require.Equal(t, len(present), held, "nobody needs these tickets")
				}
			},
		}
		t.Repeat(actions)
	})
}

// Of tickets from before data was lost, none is forgotten: not those that there is no
// room for, nor those whose last claim failed.
func TestOutdatedTicketsAreAllSent(t *testing.T) {
	now := time.Unix(1000, 0)
	q := &queue{cost: 1}
	for number := range int64(4) {
		q.add(&ticket{cost: 1, epoch: 1 + number/3, number: number + 1, due: now.Add(time.Hour)})
	}
	q.waiting[1].retry = now.Add(time.Second)
	numbers := func(at time.Time, most int) (numbers []int64, more bool) {
		tickets, more := q.outdated(2, at, most)
		for _, t := range tickets {
			numbers = append(numbers, t.number)
		}
		return numbers, more
	}
	for _, c := range []struct {
		at   time.Time
		most int
		sent []int64
		more bool
	}{
		{now, 0, nil, true},
		{now, 1, []int64{1}, true},
		{now, 9, []int64{3}, true},
		{now.Add(time.Second), 9, []int64{2}, false},
		{now.Add(time.Hour), 9, nil, false},
	} {
		sent, more := numbers(c.at, c.most)
		require.Equal(t, c.sent, sent)
		require.Equal(t, c.more, more)
	}
	require.Equal(t, 3, q.claiming)
	require.Len(t, q.waiting, 1, "the one of this epoch")
}

// After data was lost numbers begin anew, and turns that were fixed before are used first.
func TestTurnsFromBeforeDataWasLostComeFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	q := &queue{cost: 1}
	add := func(epoch, number int64, due time.Duration, final bool) *ticket {
		k := &ticket{cost: 1, epoch: epoch, number: number, given: now, due: now.Add(due), final: final}
		q.add(k)
		return k
	}
	fixed := []*ticket{add(1, 512, 0, true), add(1, 513, time.Second, true)}
	add(2, 1, 2*time.Second, true)
	far := add(2, 2, 3*time.Second, false)
	for range 3 {
		q.join(newWaiter(time.Time{}))
	}
	require.Same(t, far, q.surplus(), "who has the last turn")
	for i, k := range fixed {
		w, next := q.next(now.Add(time.Duration(i) * time.Second))
		require.NotNil(t, w)
		require.Same(t, k, next)
	}
}
