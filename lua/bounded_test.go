package lua

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/model"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A call looks at the first 64 entries of a list. Random histories stay below
// that; these are the cases at the edge.
func TestBoundedLook(t *testing.T) {
	const look, full = 64, -model.LongestMicros
	script := trueSources().driver()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := patient(t, server)
		limit := model.Limit{IntervalMicros: 1e6, Burst: 2}

		// Behind so many tickets of another cost that wait, the one of the
		// claimer's cost is found or not; either way nobody loses a number.
		for _, others := range []int{look - 1, look} {
			t.Run(fmt.Sprintf("waiting behind %d", others), func(t *testing.T) {
				p := &scriptPlayer{t: t, stage: newStage(t, client, script)}
				requests := []model.Request{{Cost: 2, MaxWaitMicros: -1, ID: "now"}}
				for i := range others {
					requests = append(requests, model.Request{Cost: 2, MaxWaitMicros: -1, ID: fmt.Sprint("other-", i)})
				}
				requests = append(requests,
					model.Request{Cost: 1, MaxWaitMicros: -1, ID: "first"},
					model.Request{Cost: 1, MaxWaitMicros: -1, ID: "second"})
				p.take(startMicros, limit, reaching(full), 0, requests)

				first := int64(2 + 2*others + 1)
				got := p.claim(startMicros, limit, reaching(0), 1e9, []model.Ticket{{Cost: 1, ID: "second"}})
				want := first
				if others >= look {
					want = first + 1 // its own
				}
				require.Equal(t, want, got.Grants[0].Number)
				got = p.claim(startMicros, limit, reaching(0), 1e9, []model.Ticket{{Cost: 1, ID: "first"}})
				require.Equal(t, first+(first+1)-want, got.Grants[0].Number, "the other of the two")
				require.NoError(t, p.stage.clear())
			})
		}

		// The same for free blocks that are too small.
		for _, small := range []int{look - 1, look} {
			t.Run(fmt.Sprintf("free behind %d", small), func(t *testing.T) {
				p := &scriptPlayer{t: t, stage: newStage(t, client, script)}
				var requests []model.Request
				var cancels []model.Cancellation
				for i := range small { // every second one is given back
					requests = append(requests,
						model.Request{Cost: 1, MaxWaitMicros: -1, ID: fmt.Sprint("small-", i)},
						model.Request{Cost: 1, MaxWaitMicros: -1, ID: fmt.Sprint("stays-", i)})
					cancels = append(cancels, model.Cancellation{Cost: 1, ID: fmt.Sprint("small-", i)})
				}
				requests = append(requests,
					model.Request{Cost: 2, MaxWaitMicros: -1, ID: "large"},
					model.Request{Cost: 1, MaxWaitMicros: -1, ID: "last"})
				p.take(startMicros, limit, reaching(1e6), 0, requests)
				p.cancel(startMicros, limit, reaching(1e6), append(cancels, model.Cancellation{Cost: 2, ID: "large"}))

				got := p.take(startMicros, limit, reaching(1e6), 0, []model.Request{{Cost: 2, MaxWaitMicros: -1, ID: "new"}})
				want := int64(2*small + 2) // the large one
				if small >= look {
					want += 3 // at the tail
				}
				require.Equal(t, want, got.Grants[0].Number)
				require.NoError(t, p.stage.clear())
			})
		}

		// Dead tickets in front are dropped as they are met: a claim that met
		// only such keeps its own number, the next one sees what is behind.
		for _, dead := range []int{look, look + 1} {
			t.Run(fmt.Sprintf("%d dead", dead), func(t *testing.T) {
				limit := model.Limit{IntervalMicros: 1000, Burst: 1}
				p := &scriptPlayer{t: t, stage: newStage(t, client, script)}
				requests := []model.Request{{Cost: 1, MaxWaitMicros: -1, ID: "now"}}
				for i := range dead {
					requests = append(requests, model.Request{Cost: 1, MaxWaitMicros: -1, ID: fmt.Sprint("dead-", i)})
				}
				p.take(startMicros, limit, reaching(full), 0, requests)
				// Something later is let through, and then they are late.
				p.take(startMicros, limit, reaching(0), 1e9, []model.Request{{Cost: 1, MaxWaitMicros: -1, ID: "later"}})
				p.take(startMicros, limit, reaching(0), 0, []model.Request{
					{Cost: 1, MaxWaitMicros: -1, ID: "first"},
					{Cost: 1, MaxWaitMicros: -1, ID: "second"},
					{Cost: 1, MaxWaitMicros: -1, ID: "third"}})
				at := startMicros + int64(dead+1)*1000
				first := int64(1 + dead + 1 + 1)

				want := []int64{first, first + 1}
				if dead > look {
					want = []int64{first + 1, first} // its own, then what "first" has
				}
				got := p.claim(at, limit, reaching(0), 1e9, []model.Ticket{{Cost: 1, ID: "second"}, {Cost: 1, ID: "third"}})
				require.Equal(t, want, []int64{got.Grants[0].Number, got.Grants[1].Number})
				require.NoError(t, p.stage.clear())
			})
		}
	})
}

// reaching is a caller who knows nothing but how far the line reached.
func reaching(micros float64) model.Caller { return model.Caller{ReachMicros: micros} }
