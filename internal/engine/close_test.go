package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/meter"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// refused answers heartbeats at once.
type refused struct{ counter }

func (refused) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[1] == scripts.Beat.Hash() {
			cmd.SetErr(tryAgain("NOPERM this user has no permissions"))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// The answer to the last batch of a process may be there before Close waits for it. Others who look at
// the process meanwhile hold Close up, so that it often is.
func TestCloseWhileTheLastAnswerArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		for range 200 {
			p := b.process(time.Millisecond)
			p.client.AddHook(refused{})
			_, err := p.Wait(t.Context(), one(p.paced("", 1e6, 1)))
			require.NoError(t, err)
			closed := make(chan struct{})
			var looking sync.WaitGroup
			for range 4 {
				looking.Go(func() {
					for {
						select {
						case <-closed:
							return
						default:
							p.Standing(func(*meter.Limit) *meter.Standing { return nil })
						}
					}
				})
			}
			p.Close()
			close(closed)
			looking.Wait()
		}
	})
}
