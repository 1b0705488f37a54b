// Package reservetest is for tests of code that waits for limits: a Redis in memory and an API
// that keeps to its limits, both in the simulated time of [testing/synctest]. No server is
// needed, and nobody sleeps.
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
// Make a [Server] and an [API] inside of the bubble. They end with the test, so tests may run
// one after the other and in parallel. Outside of a bubble the same works in real time.
//
// Your code has to close what it makes on a [Server.Client] before the test ends, limiters above
// all: a goroutine that is left fails a bubble. What a Server makes it closes itself.
//
// [RecordTurns] tells which calls had their turns when. A Server can be away or slow, it can lose
// replies and data, and its clock can step. See [Server.Outage], [Server.Delay],
// [Server.LoseReplies], [Server.LoseData] and [Server.StepClock].
//
// Fleets of asynq run on a Server, too: see [Server.MakeRedisClient].
package reservetest
