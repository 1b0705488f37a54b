package transport_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// eachKind has a client whose requests need limits of each kind; the answers are those of a
// script.
func eachKind(t *testing.T, settles bool, test func(*testing.T, *bubble.Bubble, bubble.Kind, reserve.Turns)) {
	for _, k := range bubble.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k.Settles = settles
				b := bubble.New(t)
				test(t, b, k, b.Turns(b.Client(), k))
			})
		})
	}
}

var well = reply{200, ""}

// Following what answers tell is for paced limits.
func TestKindsLearn(t *testing.T) {
	eachKind(t, false, func(t *testing.T, _ *bubble.Bubble, k bubble.Kind, turns reserve.Turns) {
		_, err := transport.New(transport.Config{Limiter: turns, Learn: true})
		switch {
		case len(k.Limits) > 1:
			require.ErrorIs(t, err, transport.ErrInvalid)
			require.ErrorContains(t, err, "Config.Learn: cannot tell which of the limits [limit-0 limit-1 limit-2] the provider states")
		case k.Limits[0].Kind() != reserve.KindPaced:
			require.ErrorIs(t, err, transport.ErrInvalid)
			require.ErrorContains(t, err, "Config.Learn: is for paced limits, whose rate can follow, got "+k.Limits[0].String())
		default:
			require.NoError(t, err)
		}
	})
}

// What a request has not used is there for others, but for limits that warm up.
func TestKindsSettle(t *testing.T) {
	eachKind(t, true, func(t *testing.T, b *bubble.Bubble, k bubble.Kind, turns reserve.Turns) {
		nothing := make([]int, len(k.Limits))
		paced := newTransport(t, transport.Config{
			Limiter: turns, Base: &script{answers: []reply{well}}, Used: func(*http.Response) []int { return nothing },
		})
		began := time.Now()
		for range 20 {
			do(t, paced, newRequest(t, "GET", "http://api.test", nil))
		}
		if k.Name == "warming up" { // a call is let through first, and is paid for by then
			assert.InDelta(t, 20*time.Second, time.Since(began), float64(4*time.Second))
		} else {
			assert.Less(t, time.Since(began), time.Second)
		}

		other := b.Turns(b.Client(), bubble.Kind{Limits: k.Limits})
		_, err := transport.New(transport.Config{Limiter: other, Used: func(*http.Response) []int { return nothing }})
		require.ErrorIs(t, err, transport.ErrInvalid)
		require.ErrorContains(t, err, "cannot be settled: set reserve.Config.Settles")
	})
}
