package reserve_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

func ExampleEvery() {
	limit := reserve.Every(1500 * time.Millisecond)
	fmt.Printf("%v: %.2f per second\n", limit, limit.Rate())
	// Output: 1/1.5s: 0.67 per second
}

func ExamplePerMinute() {
	limit := reserve.PerMinute(600)
	fmt.Println(limit, "is a permit every", limit.Interval())
	// Output: 600/minute is a permit every 100ms
}

func ExamplePerHour() {
	limit := reserve.PerHour(1_000).Burst(50)
	fmt.Println(limit, "is a permit every", limit.Interval())
	// Output: 1000/hour burst 50 is a permit every 3.6s
}

func ExamplePerDay() {
	limit := reserve.PerDay(8_640)
	fmt.Println(limit, "is a permit every", limit.Interval())
	// Output: 8640/day is a permit every 10s
}

// After an idle time five calls may leave at once. Calls may cost up to five permits.
func ExampleLimit_Burst() {
	limit := reserve.PerSecond(50).Burst(5)
	fmt.Println(limit, "lets", limit.MaxBurst(), "through at once")
	fmt.Println(reserve.Rolling(100, time.Minute).Burst(5).Validate())
	// Output:
	// 50/s burst 5 lets 5 through at once
	// reserve: invalid Limit: a limit of kind rolling must have no burst of its own, got a burst of 5 with 100 permits
}

// A limit as a flag, with its default.
func ExampleLimit_MarshalText() {
	var limit reserve.Limit
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.TextVar(&limit, "limit", reserve.PerSecond(50), "what the API allows")
	fmt.Println(limit, flags.Parse(nil))
	err := flags.Parse([]string{"-limit", "1000/minute burst 200"})
	fmt.Println(limit, err)
	// Output:
	// 50/s <nil>
	// 1000/minute burst 200 <nil>
}

func ExamplePolicy_UnmarshalText() {
	var config struct{ Policy reserve.Policy }
	err := json.Unmarshal([]byte(`{"policy": "wait"}`), &config)
	fmt.Println(config.Policy == reserve.PolicyWait, err)
	// Output: true <nil>
}

func ExamplePolicy_MarshalText() {
	var policy reserve.Policy
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.TextVar(&policy, "redis-away", reserve.PolicyLocal, "what calls do while Redis is away")
	fmt.Println(policy, flags.Parse(nil))
	err := flags.Parse([]string{"-redis-away", "fail"})
	fmt.Println(policy, err)
	// Output:
	// local <nil>
	// fail <nil>
}
