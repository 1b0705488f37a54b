package main

import (
	"context"
	_ "embed" // for guava.lua
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed guava.lua
var guavaSource string

var guavaScript = redis.NewScript(guavaSource)

// guavaTTL is fixed, as in most scripts of this kind.
const guavaTTL = time.Minute

// openGuava is a reservation as people write it themselves: a script call each.
func openGuava(client *redis.Client, b bucket) (asker, error) {
	return asker{close: nothing, ask: func(ctx context.Context, key string) error {
		wait, err := guavaScript.Run(ctx, client, []string{b.name + "/" + key},
			b.interval.Microseconds(), b.burst, guavaTTL.Milliseconds()).Int64()
		if err != nil || wait <= 0 {
			return err
		}
		select {
		case <-time.After(time.Duration(wait) * time.Microsecond):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}, nil
}
