package inbound_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/inbound"
	inbubble "github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
)

// kindOf is a kind of limit that a site has, used by nobody yet.
type kindOf struct {
	inbubble.Kind
	*site
	turns reserve.Turns
	b     *bubble
}

func eachKind(t *testing.T, config inbound.Config, test func(*testing.T, kindOf)) {
	for _, k := range inbubble.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				turns := b.Turns(b.Client(), k)
				test(t, kindOf{k, newSite(t, turns, config), turns, b})
			})
		})
	}
}

// useUp asks until it is refused, and returns after how many seconds to come back.
func (k kindOf) useUp(t *testing.T) int {
	for range k.AtOnce {
		require.Equal(t, http.StatusOK, k.get(t.Context(), "").Code)
	}
	w := k.get(t.Context(), "")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	return retryAfter(t, w)
}

// As many pass as the limits let through at once, in whatever process; and when Retry-After
// says, the next one does, but not a second earlier.
func TestKindsAllow(t *testing.T) {
	eachKind(t, inbound.Config{}, func(t *testing.T, k kindOf) {
		after := k.useUp(t)
		other := newSite(t, k.b.Turns(k.b.Client(), k.Kind), inbound.Config{})
		if after > 1 {
			time.Sleep(time.Duration(after-1) * time.Second)
			require.Equal(t, http.StatusTooManyRequests, other.get(t.Context(), "").Code)
		}
		time.Sleep(time.Second)
		require.Equal(t, http.StatusOK, other.get(t.Context(), "").Code)
	})
}

// A request waits for its turn within MaxWait, and takes no place where that is too short.
func TestKindsWait(t *testing.T) {
	eachKind(t, inbound.Config{}, func(t *testing.T, k kindOf) {
		after := k.useUp(t)
		begun := time.Now()
		short := newSite(t, k.turns, inbound.Config{MaxWait: 100 * time.Millisecond})
		require.Equal(t, http.StatusTooManyRequests, short.get(t.Context(), "").Code)
		require.Zero(t, time.Since(begun))
		patient := newSite(t, k.turns, inbound.Config{MaxWait: time.Hour})
		require.Equal(t, http.StatusOK, patient.get(t.Context(), "").Code)
		require.InDelta(t, float64(after), time.Since(begun).Seconds(), 1.01)
	})
}

// With EveryAnswer each answer has the figures of each limit: what is left falls to 0, and is
// all there again when the last of them has been reset.
func TestKindsState(t *testing.T) {
	eachKind(t, inbound.Config{EveryAnswer: true, Headers: inbound.HeadersBoth}, func(t *testing.T, k kindOf) {
		figures := func() (left, reset []int64) {
			header := k.get(t.Context(), "").Header()
			for _, list := range [][]string{header.Values("RateLimit"), header.Values("RateLimit-Policy")} {
				items, err := httpsfv.UnmarshalList(list)
				require.NoError(t, err)
				require.Len(t, items, len(k.Limits))
			}
			items, _ := httpsfv.UnmarshalList(header.Values("RateLimit"))
			for _, item := range items {
				params := item.(httpsfv.Item).Params
				r, _ := params.Get("r")
				s, _ := params.Get("t")
				left, reset = append(left, r.(int64)), append(reset, s.(int64))
			}
			require.NotEmpty(t, header.Get("X-RateLimit-Reset"))
			return left, reset
		}
		var reset []int64
		for n := k.AtOnce - 1; n >= 0; n-- {
			var left []int64
			left, reset = figures()
			require.Equal(t, slices.Repeat([]int64{int64(n)}, len(k.Limits)), left)
		}
		left, _ := figures()
		require.Equal(t, slices.Repeat([]int64{0}, len(k.Limits)), left, "of a refusal")
		time.Sleep(time.Duration(slices.Max(reset)) * time.Second)
		left, _ = figures()
		require.Equal(t, slices.Repeat([]int64{int64(k.AtOnce - 1)}, len(k.Limits)), left)
	})
}

// A pause refuses, also where permits are left, and Retry-After is as long; Resume ends it.
func TestKindsPauseAndResume(t *testing.T) {
	eachKind(t, inbound.Config{EveryAnswer: true}, func(t *testing.T, k kindOf) {
		require.Equal(t, http.StatusOK, k.get(t.Context(), "").Code)
		require.NoError(t, k.turns.Pause(t.Context(), 90*time.Second, "the API wants it"))
		w := k.get(t.Context(), "")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		assert.InDelta(t, 90, retryAfter(t, w), 1)
		items, err := httpsfv.UnmarshalList(w.Header().Values("RateLimit"))
		require.NoError(t, err)
		require.Len(t, items, len(k.Limits))
		r, _ := items[0].(httpsfv.Item).Params.Get("r")
		assert.Zero(t, r)
		require.NoError(t, k.turns.Resume(t.Context()))
		time.Sleep(3 * time.Second)
		require.Equal(t, http.StatusOK, k.get(t.Context(), "").Code)

		require.NoError(t, k.turns.Pause(t.Context(), 90*time.Second, "the API wants it"))
		time.Sleep(time.Duration(retryAfter(t, k.get(t.Context(), ""))) * time.Second)
		require.Equal(t, http.StatusOK, k.get(t.Context(), "").Code)
	})
}

// Limits whose costs are settled by others are as others here: a request costs what it costs.
func TestKindsThatSettle(t *testing.T) {
	for _, k := range inbubble.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				k.Settles = true
				turns := b.Turns(b.Client(), k)
				kindOf{k, newSite(t, turns, inbound.Config{}), turns, b}.useUp(t)

				all, err := reserve.All(turns.Limits()...)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, newSite(t, turns, inbound.Config{MaxWait: time.Hour}).get(t.Context(), "").Code)
				_, err = all.Allow(t.Context())
				require.NoError(t, err)
			})
		})
	}
}
