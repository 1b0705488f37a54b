package reserve_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A client that was closed will never answer again. No policy takes that for an outage:
// calls fail at once, those that wait with their next trip, and nobody asks for ever.
func TestClosedClient(t *testing.T) {
	for _, policy := range []reserve.Policy{reserve.PolicyLocal, reserve.PolicyWait, reserve.PolicyFail, reserve.PolicyOpen} {
		for _, limit := range []reserve.Limit{reserve.PerSecond(1), reserve.Rolling(1, time.Second)} {
			t.Run(string(policy)+", "+limit.Kind().String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client := newHearingBubble(t).client()
					l, err := reserve.New(client, reserve.Config{Name: "api", Limit: limit, Outage: reserve.Outage{Policy: policy}})
					require.NoError(t, err)
					require.NoError(t, l.Wait(t.Context()))
					told := make(chan error, 3)
					for range cap(told) {
						go func() {
							err := l.Wait(t.Context())
							for err == nil { // its turn may be fixed
								err = l.Wait(t.Context())
							}
							told <- err
						}()
					}
					synctest.Wait()
					require.NoError(t, client.Close())
					closed := func(err error) {
						t.Helper()
						require.ErrorIs(t, err, redis.ErrClosed)
						require.ErrorIs(t, err, reserve.ErrUnavailable)
						require.ErrorContains(t, err, "the client that the limiter was made with was closed")
					}
					at := time.Now()
					closed(l.Wait(t.Context()))
					_, err = l.Allow(t.Context())
					closed(err)
					require.Zero(t, time.Since(at))
					for range cap(told) {
						closed(<-told)
					}
					require.Less(t, time.Since(at), 4*time.Second)
					closed(l.Wait(t.Context()))
					require.NoError(t, l.Close())
				})
			})
		}
	}
}

// It says so as well where Redis was away before.
func TestClosedClientInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHearingBubble(t)
		client := b.client()
		l, err := reserve.New(client, reserve.Config{Name: "api", Limit: reserve.PerSecond(1), Outage: reserve.Outage{Policy: reserve.PolicyWait}})
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		b.redis.SetError(loading)
		told := make(chan error, 1)
		go func() { told <- l.Wait(t.Context()) }()
		time.Sleep(10 * time.Second)
		require.NoError(t, client.Close())
		require.ErrorIs(t, <-told, redis.ErrClosed)
		require.NoError(t, l.Close())
	})
}

// A Redis 6.2 with lua-replicate-commands no lets no script of ours write. That is no
// outage, whatever it has answered before: calls hear what is to be set.
func TestRedisThatDoesNotReplicateEffects(t *testing.T) {
	const said = "ERR Error running script (call to f_4f1d): @user_script:158: @user_script: 158: Write commands not allowed" +
		" after non deterministic commands. Call redis.replicate_commands() at the start of your script in order to switch" +
		" to single commands replication mode."
	for _, policy := range []reserve.Policy{reserve.PolicyLocal, reserve.PolicyWait, reserve.PolicyFail, reserve.PolicyOpen} {
		for _, limit := range []reserve.Limit{reserve.PerSecond(10), reserve.Quota(10, reserve.CalendarDay)} {
			synctest.Test(t, func(t *testing.T) {
				b := newHearingBubble(t)
				var log bytes.Buffer
				l := b.with(reserve.Config{
					Limit: limit, Outage: reserve.Outage{Policy: policy},
					Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
				})
				require.NoError(t, l.Wait(t.Context()))
				synctest.Wait()
				log.Reset()
				b.redis.SetError(said)
				at := time.Now()
				for range 10 {
					err := l.Wait(t.Context())
					require.ErrorIs(t, err, reserve.ErrDenied)
					require.ErrorContains(t, err, "set lua-replicate-commands yes")
				}
				require.Less(t, time.Since(at), time.Second)
				synctest.Wait()
				require.NotContains(t, log.String(), "Redis gives no turns")
				b.redis.SetError("")
				require.NoError(t, l.Wait(t.Context()), "it was set")
			})
		}
	}
}

// A number that can not be given back any more is given up.
func TestNumbersOfAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newHearingBubble(t).client()
		var calls atomic.Int64
		client.AddHook(hook(func() {
			if calls.Add(1) > 100 {
				time.Sleep(time.Second) // where it goes on for ever, time would stand still
			}
		}))
		l, err := reserve.New(client, reserve.Config{Name: "api", Limit: reserve.PerHour(1)})
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		ctx, leave := context.WithCancel(t.Context())
		told := make(chan error, 1)
		go func() { told <- l.Wait(ctx) }()
		synctest.Wait()
		require.NoError(t, client.Close())
		leave()
		require.ErrorIs(t, <-told, context.Canceled)
		time.Sleep(time.Minute)
		require.Less(t, calls.Load(), int64(20))
		require.NoError(t, l.Close())
	})
}

// hook is called before each command.
type hook func()

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h()
		return next(ctx, cmd)
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A Redis that was never reached is no secret, whoever set no Logger: with it, that one
// alone hears of it.
func TestRedisThatWasNeverReachedIsLogged(t *testing.T) {
	var unasked, asked bytes.Buffer
	usual := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&unasked, nil)))
	defer slog.SetDefault(usual)
	for _, c := range []struct {
		reached bool
		logger  *slog.Logger
		lines   int // on slog.Default()
	}{
		{lines: 1}, {reached: true}, {logger: slog.New(slog.NewTextHandler(&asked, nil))}, {logger: slog.New(slog.DiscardHandler)},
	} {
		synctest.Test(t, func(t *testing.T) {
			unasked.Reset()
			asked.Reset()
			b := newHearingBubble(t)
			if !c.reached {
				b.redis.SetError(loading)
			}
			l := b.with(reserve.Config{Limit: reserve.PerSecond(20), Logger: c.logger})
			require.NoError(t, l.Wait(t.Context()))
			for range 2 { // outages
				b.redis.SetError(loading)
				for range 10 {
					require.NoError(t, l.Wait(t.Context()))
				}
				b.redis.SetError("")
				time.Sleep(5 * time.Second)
				require.NoError(t, l.Wait(t.Context()))
			}
			synctest.Wait()
			require.Equal(t, c.lines, strings.Count(unasked.String(), "\n"), unasked.String())
			if c.lines > 0 {
				require.Contains(t, unasked.String(), "level=WARN")
				require.Contains(t, unasked.String(), "Redis was never reached")
				require.Contains(t, unasked.String(), "limit=api policy=local error=")
				require.Contains(t, unasked.String(), loading)
			}
			if c.logger != nil && c.logger.Enabled(t.Context(), slog.LevelWarn) {
				require.Equal(t, 2, strings.Count(asked.String(), "Redis gives no turns"))
			}
		})
	}
}
