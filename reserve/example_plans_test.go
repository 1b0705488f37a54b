package reserve_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// plans are the limits of customers, as this process knows them.
type plans struct {
	mu   sync.RWMutex
	rows map[string]plan
	last time.Time // of all changes that were read
}

type plan struct {
	limit   reserve.Limit
	updated time.Time
}

// limitOf is for Config.LimitOf: it waits for nothing but the lock.
func (p *plans) limitOf(customer string) (reserve.Limit, int64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	row, ok := p.rows[customer]
	if !ok {
		return reserve.Limit{}, 0 // Config.Limit
	}
	return row.limit, row.updated.UnixMicro()
}

// set takes over a row.
func (p *plans) set(customer string, limit reserve.Limit, updated time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[customer] = plan{limit, updated}
	if updated.After(p.last) {
		p.last = updated
	}
}

// read takes over the rows that have changed. Call it before the first call, and then every few seconds.
func (p *plans) read(ctx context.Context, db *database) error {
	rows, err := db.changedSince(ctx, p.last.Add(-time.Minute)) // a slow transaction may be visible late
	if err != nil {
		return err
	}
	for _, row := range rows {
		p.set(row.customer, reserve.PerSecond(row.perSecond).Burst(row.burst), row.updated)
	}
	return nil
}

// database stands for your database.
type database struct{ table []row }

type row struct {
	customer  string
	perSecond float64
	burst     int
	updated   time.Time
}

// changedSince stands for SELECT customer, per_second, burst, updated_at FROM plans WHERE updated_at >= $1.
func (db *database) changedSince(_ context.Context, moment time.Time) (changed []row, err error) {
	for _, row := range db.table {
		if !row.updated.Before(moment) {
			changed = append(changed, row)
		}
	}
	return changed, nil
}

// One limiter has the limits of 10,000 customers, whose plans are in a database.
func Example_limitsFromADatabase() {
	client, stop := startRedis()
	defer stop()
	ctx, noon := context.Background(), time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	db := &database{}
	for i := range 10_000 {
		db.table = append(db.table, row{fmt.Sprint("customer-", i), 5, 10, noon})
	}

	customers := &plans{rows: map[string]plan{}}
	if err := customers.read(ctx, db); err != nil {
		fmt.Println(err)
		return
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

	customer := limiter.For("customer-7")
	fmt.Println(customer.Limit(), customer.Wait(ctx))

	// The customer upgrades, and the next read finds the row. The whole fleet follows, also calls that wait.
	db.table[7] = row{"customer-7", 50, 20, noon.Add(time.Hour)}
	_ = customers.read(ctx, db)
	fmt.Println(customer.Limit(), customer.WaitN(ctx, 15))

	fmt.Println(limiter.For("a customer without a plan").Limit())
	// Output:
	// 5/s burst 10 <nil>
	// 50/s burst 20 <nil>
	// 1/s
}
