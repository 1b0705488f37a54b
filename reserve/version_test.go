package reserve_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/frozen"
	"github.com/fleetpace/fleetpace/reserve"
)

// v02 is a process of v0.2 in simulated time: it makes each call that its scripts grant, and sends heartbeats,
// until stopped.
type v02 struct {
	frozen.V02
	calls int
	stop  func()
}

func (b *bubble) v02(group string) *v02 {
	p := &v02{V02: frozen.V02{Client: b.client(), Prefix: reserve.DefaultPrefix, Group: group, Name: "api", Process: "old", Interval: 100 * time.Millisecond, Burst: 1}}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			if n%100 == 0 {
				assert.NoError(b, p.Beat(b.Context(), false))
			}
			granted, err := p.Ask(b.Context())
			assert.NoError(b, err)
			if granted {
				p.calls++
			}
			time.Sleep(10 * time.Millisecond)
		}
		assert.NoError(b, p.Beat(b.Context(), true))
	}()
	p.stop = func() {
		stop()
		<-done
	}
	return p
}

// Processes of v0.2 use a limit, alone or in a group. Calls of a new process fail and say what to do, in every way to
// call, and the two together never use more than the limit. When the old ones are gone, the calls succeed. It does not
// matter who comes first.
func TestV02IsNotDoubled(t *testing.T) {
	for _, group := range []string{"", "g"} {
		for _, first := range []string{"old", "new"} {
			t.Run(fmt.Sprintf("group %q, %s first", group, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					client := b.client()
					l := b.on(client, reserve.Config{Logger: silent, Group: group, Limit: reserve.PerSecond(10)})
					other := b.on(client, reserve.Config{Logger: silent, Group: group, Name: "other", Limit: reserve.PerSecond(10)})
					calls := 0
					tries := func(d time.Duration) (refused int) {
						for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
							ok, err := l.Allow(t.Context())
							if ok {
								calls++
							}
							if err != nil {
								require.ErrorIs(t, err, reserve.ErrVersion)
								require.ErrorContains(t, err, "fleetpace v0.2")
								require.ErrorContains(t, err, "docs/upgrading.md")
								refused++
							}
						}
						return refused
					}
					began := time.Now()
					if first == "new" {
						require.Zero(t, tries(5*time.Second))
						require.Greater(t, calls, 40)
					}
					old := b.v02(group)
					time.Sleep(time.Second)
					before := calls
					tries(6 * time.Second) // while it finds out
					if first == "old" {
						require.Zero(t, calls, "not one call passes")
					}
					found := calls
					require.Positive(t, tries(5*time.Second))
					require.Equal(t, found, calls, "calls beside the old process, after %d", before)
					for what, call := range map[string]func() error{
						"Wait":    func() error { return l.Wait(t.Context()) },
						"Reserve": func() error { _, err := l.Reserve(t.Context()); return err },
						"a key":   func() error { return l.For("acme").Wait(t.Context()) },
						"Pause":   func() error { return l.Pause(t.Context(), time.Second, "") },
						"State":   func() error { _, err := l.State(t.Context()); return err },
					} {
						require.ErrorIs(t, call(), reserve.ErrVersion, what)
					}
					require.NoError(t, other.Wait(t.Context()), "no old process uses the other limit")
					old.stop()
					lasted := time.Since(began).Seconds()
					require.LessOrEqual(t, float64(old.calls+calls), 10*lasted+1, "in %v s, %d calls of the old one and %d of the new one", lasted, old.calls, calls)
					tries(5 * time.Second)
					require.Zero(t, tries(5*time.Second), "the old one is gone")
					require.Greater(t, calls, found+45)
				})
			})
		}
	}
}
