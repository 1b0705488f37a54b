package docs_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
)

func Example_several() {
	ctx := context.Background()
	limit := func(name string, limit reserve.Limit) *reserve.Limiter {
		l, err := reserve.New(client, reserve.Config{Name: name, Group: "several", Limit: limit})
		if err != nil {
			panic(err)
		}
		return l
	}
	requests, tokens := limit("requests", reserve.PerSecond(50).Burst(5)), limit("tokens", reserve.PerMinute(100).Burst(2000))
	tenants := limit("tenants", reserve.PerMinute(6).Burst(2))
	defer requests.Close()
	defer tokens.Close()
	defer tenants.Close()
	if err := together(ctx, requests, tokens, tenants); err != nil {
		fmt.Println(err)
	}
	// Output: tokens true
}

func together(ctx context.Context, requests, tokens, tenants *reserve.Limiter) error {
	joint, err := reserve.All(requests, tokens, tenants.For("acme")) // up to 8, of one Config.Group
	if err != nil {
		return err
	}
	err = joint.Wait(ctx, 1, 1200, 1) // what it costs of each
	if err != nil {
		return err
	}
	r, err := joint.Reserve(ctx, 1, 1200, 1)
	if err != nil {
		return err
	}
	fmt.Println(r.HeldBy(), time.Until(r.Due()) > 0)
	return r.Cancel(ctx)
}

func Example_severalSettles() {
	if err := settles(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
}

func settles(ctx context.Context) error {
	estimated, err := reserve.New(client, reserve.Config{Name: "tokens", Limit: reserve.PerMinute(30_000).Burst(20_000), Settles: true})
	if err != nil {
		return err
	}
	r, err := estimated.ReserveN(ctx, 1_500) // an estimate
	if err != nil {
		return err
	}
	err = r.Wait(ctx)
	if err != nil {
		return err
	}
	err = r.Settle(ctx, 900) // as the response says
	if err != nil {
		return err
	}
	return estimated.Close()
}

// How much comes back depends on the kind, and on how many calls had their turns since.
func TestHowMuchComesBack(t *testing.T) {
	for _, c := range []struct {
		limit        reserve.Limit
		others, back int
	}{
		{reserve.PerDay(1000).Burst(1000), 0, 400},
		{reserve.Quota(1000, reserve.CalendarMonth), 3, 400},
		{reserve.Rolling(1000, time.Hour), 63, 400},
		{reserve.Rolling(1000, time.Hour), 64, 0},
	} {
		t.Run(fmt.Sprint(c.limit, " after ", c.others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { require.Equal(t, c.back, comesBack(t, c.limit, c.others)) })
		})
	}
}

// comesBack is what a call of 500 permits that used 100 gives back after others.
func comesBack(t *testing.T, limit reserve.Limit, others int) int {
	ctx := t.Context()
	l := reservetest.New(t).Limiter(reserve.Config{Name: "estimated", Limit: limit, Settles: true})
	r, err := l.ReserveN(ctx, 500)
	require.NoError(t, err)
	require.NoError(t, r.Wait(ctx))
	for range others {
		require.NoError(t, l.Wait(ctx))
	}
	before, err := l.State(ctx)
	require.NoError(t, err)
	require.NoError(t, r.Settle(ctx, 100))
	after, err := l.State(ctx)
	require.NoError(t, err)
	return int(math.Round(after.Stored - before.Stored))
}

func Example_severalSlots() {
	if err := atOnce(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
}

func atOnce(ctx context.Context) error {
	slots, err := reserve.New(client, reserve.Config{Name: "at-once", Limit: reserve.Concurrent(100)})
	if err != nil {
		return err
	}
	held, err := slots.Acquire(ctx, 1) // of a Limiter, or of a Joint of slots and rates
	if err != nil {
		return err
	}
	defer held.Release()
	return nil
}

func Example_severalFlows() {
	ctx, tenant := context.Background(), "acme"
	account, err := reserve.New(client, reserve.Config{Name: "account", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer account.Close()
	fmt.Println(shares(ctx, account, tenant))
	// Output: <nil>
}

func shares(ctx context.Context, account *reserve.Limiter, tenant string) error {
	err := account.Flow(tenant).Wait(ctx) // each tenant that waits has an equal share …
	if err != nil {
		return err
	}
	err = account.Flow(tenant).Weight(3).Wait(ctx) // … or a share by its weight
	if err != nil {
		return err
	}
	err = account.Flow(tenant).Urgent().Wait(ctx) // ahead of all others
	return err
}
