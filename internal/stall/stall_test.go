package stall

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := Start(ctx)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(t, w.Longest(), "in simulated time everybody wakes when they should")
		require.Zero(t, w.Share())
		w.note(lateness)
		require.Equal(t, lateness, w.Longest())
		require.Zero(t, w.Share(), "that is not late")
		w.note(2 * time.Second)
		w.note(time.Second)
		require.Equal(t, 2*time.Second, w.Longest())
		require.InDelta(t, 0.3, w.Share(), 1e-9)
		require.Contains(t, Note(w.Share()), "30.0 %")
		require.Empty(t, Note(0.009))
		cancel()
		time.Sleep(nap)
	})
}

func TestCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalls := 2
		began := time.Now()
		require.NoError(t, calm(t.Context(), 5*time.Second, func(context.Context) *Watch {
			w := &Watch{began: time.Now()}
			if stalls > 0 {
				stalls--
				w.note(50 * time.Millisecond) // a hundredth of 5 s
			}
			return w
		}))
		require.Equal(t, 15*time.Second, time.Since(began), "the first two stalled")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, Calm(ctx, 5*time.Second), context.DeadlineExceeded)
		time.Sleep(nap)
	})
}
