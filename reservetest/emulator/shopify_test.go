package emulator_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// Each rule of a shop, with queries that keep it and queries that do not.
func TestShopifyRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requested, actual := 400.0, 100.0
		api, err := emulator.NewShopify(emulator.ShopifyConfig{Query: func(*http.Request) (float64, float64, time.Duration) {
			return requested, actual, time.Second
		}})
		require.NoError(t, err)
		query := func(has string) {
			t.Helper()
			status, _, body := post(t, api, "/admin/api/graphql.json", "{}")
			assert.Equal(t, 200, status)
			assert.Contains(t, body, has)
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { query(`"actualQueryCost":100`) })
		}
		time.Sleep(100 * time.Millisecond)
		query(`"code":"THROTTLED"`) // 800 of 1000 are held, and 5 have come since
		both.Wait()
		query(`"currentlyAvailable":800`) // 850 were left, 400 are held and 300 of them come back, and 50 have come
		requested = 1001
		query("MAX_COST_EXCEEDED")
		shop := api.Shop("api.example")
		require.True(t, shop.Others(time.Now(), 790))
		require.False(t, shop.Others(time.Now(), 100))
		requested, actual = 100, 100
		query("THROTTLED")
		shop.SetRate(time.Now(), 100)
		time.Sleep(900 * time.Millisecond)
		query(`"restoreRate":100`)
		report := shop.Report()
		assert.InDelta(t, 400, report.Used, 0)
		assert.Equal(t, 2, report.Throttled)
		assert.Equal(t, 2, report.MostOpen)
	})
}

// A client that counts what queries use, and not what they request, is throttled once several run at a time.
func TestShopifyFindsWrongClients(t *testing.T) {
	for atATime, wrong := range map[int]bool{9: false, 10: true} {
		synctest.Test(t, func(t *testing.T) {
			api, err := emulator.NewShopify(emulator.ShopifyConfig{Query: func(*http.Request) (float64, float64, time.Duration) {
				return 101, 46, 500 * time.Millisecond
			}})
			require.NoError(t, err)
			var all sync.WaitGroup
			for range atATime {
				all.Go(func() { post(t, api, "/", "{}") })
			}
			all.Wait()
			assert.Equal(t, wrong, api.Shop("api.example").Report().Throttled > 0)
		})
	}
}
