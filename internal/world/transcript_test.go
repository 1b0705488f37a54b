package world

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A transcript is read as it was written.
func TestTranscriptsAreRead(t *testing.T) {
	for seed := range uint64(200) {
		p := draw(seed)
		again, err := readPlan(p.String())
		require.NoError(t, err)
		require.Equal(t, p.String(), again.String())
		require.Equal(t, p, again)
	}
	for _, wrong := range []string{
		"", "world seed=1 until=1s\nlimit is=1/s name=api\nprocess trip=1ms\nload need=1:1 callers=1",
		"world speed=1", "1s dance", "1x kill", "world seed=x",
	} {
		_, err := readPlan(wrong)
		require.Error(t, err, "%q", wrong)
	}
}

// Faults that were found once do not return. FLEETPACE_WORLD_TRANSCRIPT plays another transcript, and
// prints what happens.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	one := os.Getenv("FLEETPACE_WORLD_TRANSCRIPT")
	if one != "" {
		files = []string{one}
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			play(readTranscript(t, file), one != "", nil).tell(t)
		})
	}
}

// The same faults do not return with other seeds. The gate plays all of these seeds.
func TestTranscriptsWithOtherSeeds(t *testing.T) {
	for file, seeds := range map[string]uint64{
		"slots-passed-over.txt": 12, "orders-of-two-limits.txt": 12, "order-of-ended-debts.txt": 4, "order-of-bookings-of-flows.txt": 5, "order-behind-gaps.txt": 8, "joint-calls-of-two-pairs.txt": 6, "order-after-a-hiccup.txt": 7,
		"clock-ahead-limits-of-others.txt": 8, "clock-ahead-keys-expire.txt": 8,
		"lost-limits-of-others.txt": 4, "lost-limits-nobody-listens.txt": 4, "older-limits-nobody-listens.txt": 4,
		"plans-up-and-down.txt": 4, "plans-lost.txt": 4, "plans-nobody-calls.txt": 4,
		"turns-of-who-gives-up.txt": 4, "turns-of-bookings-that-give-up.txt": 4,
		"quota-head-told-late.txt": 8, "quota-next-heads-told-late.txt": 8, "quota-replies-lost-twice.txt": 4, "slots-lost-and-free.txt": 4, "slots-and-a-slow-rate.txt": 4, "places-of-the-dead.txt": 6, "places-of-the-dead-in-a-quota.txt": 3,
		"refused-calls-leave.txt": 8, "refused-calls-leave-rolling.txt": 8, "turns-known-late.txt": 6, "dead-heads-of-a-rolling-limit.txt": 4, "slots-places-return.txt": 8, "clock-back-and-ahead.txt": 20, "clock-back-after-a-rest.txt": 4,
		"joint-places-of-the-dead.txt": 14, "joint-dead-before-a-slower-limit.txt": 11, "quota-asks-that-failed.txt": 6, "clock-ahead-quota-asleep.txt": 4, "clock-back-quota-asleep.txt": 4,
		"local-before-all-are-counted.txt": 6, "local-after-data-is-lost.txt": 6,
		"turns-for-calls-that-come.txt": 4, "turns-of-bookings-come-forward.txt": 4, "pace-of-a-joint.txt": 2,
	} {
		t.Run(file, func(t *testing.T) {
			for seed := range min(seeds, redistest.Budget(seeds, 1)) {
				p := readTranscript(t, filepath.Join("testdata", file))
				if p.seed == seed+1 {
					continue // TestTranscripts plays it
				}
				p.seed = seed + 1
				require.Empty(t, play(p, false, nil).violations, "seed %d", p.seed)
			}
		})
	}
}

func readTranscript(t *testing.T, file string) *plan {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	p, err := readPlan(string(text))
	require.NoError(t, err)
	return p
}
