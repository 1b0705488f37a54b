package reserve_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// plans are the limits of customers, as a table of a database has them. A goroutine of the program
// reads the rows that have changed, every few seconds.
type plans struct {
	mu   sync.RWMutex
	rows map[string]plan
}

type plan struct {
	limit   reserve.Limit
	updated time.Time
}

// set takes over a row.
func (p *plans) set(customer string, limit reserve.Limit, updated time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[customer] = plan{limit, updated}
}

// limitOf is for Config.LimitOf: it blocks for nobody.
func (p *plans) limitOf(customer string) (reserve.Limit, int64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	row, ok := p.rows[customer]
	if !ok {
		return reserve.Limit{}, 0 // Config.Limit
	}
	return row.limit, row.updated.UnixMicro()
}

// One limiter has the limits of 10,000 customers, whose plans are in a database.
func Example_limitsFromADatabase() {
	client, stop := startRedis()
	defer stop()

	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	customers := &plans{rows: map[string]plan{}}
	for i := range 10_000 {
		customers.set(fmt.Sprint("customer-", i), reserve.PerSecond(5).Burst(10), noon)
	}

	limiter, err := reserve.New(client, reserve.Config{
		Name:    "api",
		Limit:   reserve.PerSecond(1), // of keys without a plan
		LimitOf: customers.limitOf,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	ctx := context.Background()
	customer := limiter.For("customer-7")
	fmt.Println(customer.Limit(), customer.Wait(ctx))

	// The customer upgrades. The whole fleet follows with the next call, also the calls that wait.
	customers.set("customer-7", reserve.PerSecond(50).Burst(20), noon.Add(time.Minute))
	fmt.Println(customer.Limit(), customer.WaitN(ctx, 15))

	fmt.Println(limiter.For("a customer without a plan").Limit())
	// Output:
	// 5/s burst 10 <nil>
	// 50/s burst 20 <nil>
	// 1/s
}
