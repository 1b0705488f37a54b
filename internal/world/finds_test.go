//go:build mistakes

package world

import (
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFinds finds a history that breaks a law. TestMistakesInTheEngine builds it with a mistake in the engine,
// and runs it. It plays the transcripts first, then the histories of the gate. A history that never ends breaks the
// law "alive". Others take a second of a core. The time of the core counts, as other programs may need it, too.
func TestFinds(t *testing.T) {
	const most = 20 * time.Second
	law, began, plays := os.Getenv("FLEETPACE_WORLD_FINDS"), atomic.Int64{}, atomic.Pointer[found]{}
	tell := func(f found) {
		text, err := json.Marshal(f)
		require.NoError(t, err)
		fmt.Printf("FOUND %s\n", text)
	}
	go func() {
		for range time.Tick(most / 100) {
			if f := plays.Load(); f != nil && used(t)-time.Duration(began.Load()) > most {
				tell(*f)
				os.Exit(1)
			}
		}
	}()
	for n, in := range all(t) {
		began.Store(int64(used(t)))
		plays.Store(&found{Law: "alive", In: fmt.Sprint(in), Histories: n + 1})
		w := play(historyOf(t, in), false, nil)
		for _, v := range w.violations {
			if law == "any" || v.law == law {
				tell(found{Law: v.law, In: fmt.Sprint(in), Histories: n + 1})
				return
			}
		}
		for _, v := range w.violations {
			t.Logf("%v: %v", in, v)
		}
	}
}

// used returns how much time of the cores the process has used.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
