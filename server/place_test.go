package server

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
)

// Who takes over an id whose call ends just then has a place of its own.
func TestTheClaimOfAPlaceThatIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		n := need{turns: b.Joint(b.Client(), reserve.Config{Limit: reserve.PerSecond(1)}), costs: []int{1}}
		all := places{byID: map[string]*place{}, kept: newFair(1)}
		mine := newPoll(t.Context())
		first, err := all.claim(mine, "id", n)
		require.NoError(t, err)
		var second *place
		go func() {
			next := newPoll(t.Context())
			second, err = all.claim(next, "id", n)
			if err == nil {
				err = next.Err()
			}
		}()
		synctest.Wait()
		require.Error(t, mine.Err())
		all.drop(first)
		synctest.Wait()
		require.NoError(t, err)
		require.NotSame(t, first, second)
		require.True(t, all.known("id"))
		all.drop(second)
		require.False(t, all.known("id"))
	})
}

// Of three requests under one id that follow each other at once, the last one has the place.
func TestTheClaimOfAPlaceThatAThirdOneHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		n := need{turns: b.Joint(b.Client(), reserve.Config{Limit: reserve.PerSecond(1)}), costs: []int{1}}
		all := places{byID: map[string]*place{}, kept: newFair(1)}
		first, err := all.claim(newPoll(t.Context()), "id", n)
		require.NoError(t, err)
		results := make([]error, 2)
		for i := range results {
			go func() {
				var at *place
				if at, results[i] = all.claim(newPoll(t.Context()), "id", n); results[i] == nil {
					all.drop(at)
				}
			}()
			synctest.Wait()
		}
		require.ErrorIs(t, results[0], errTaken)
		all.drop(first)
		synctest.Wait()
		require.NoError(t, results[1])
	})
}
