// Package reservetest tests code that waits for limits. It has a Redis in memory and an API that
// enforces limits, both in the simulated time of [testing/synctest]. Tests need no server and do
// not sleep in real time.
//
//	synctest.Test(t, func(t *testing.T) {
//		server := reservetest.New(t)
//		api := reservetest.NewAPI(t, reserve.PerSecond(10))
//		limiter := server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerSecond(10)})
//		if err := yourJob(t.Context(), limiter, api.Client()); err != nil {
//			t.Fatal(err)
//		}
//		if n := api.Refused(); n > 0 {
//			t.Errorf("the API refused %d calls", n)
//		}
//	})
//
// Make a [Server] and an [API] inside of the bubble, the function that synctest.Test runs. They
// end with the test, so tests may also run in parallel. Outside of a bubble they work in real
// time.
//
// Your code must close what it makes on a [Server.Client] before the test ends, above all
// limiters: a goroutine that is left fails the bubble. A Server closes what it makes.
//
// [RecordTurns] records which calls had their turns, and when. A Server can be unreachable or
// slow, it can lose replies and data, and its clock can step. See [Server.Outage],
// [Server.Delay], [Server.LoseReplies], [Server.LoseData] and [Server.StepClock].
//
// Servers and clients of asynq run on a Server, too: see [Server.MakeRedisClient].
package reservetest
