package integration

import (
	"syscall"
	"testing"
)

// asynq and the limiter on a Redis Cluster of three masters: two queues, each in
// a slot of its own, share one limit in a third.
func TestAsynqOnCluster(t *testing.T) {
	long(t, "takes 5 s")
	const rate, tasks = 100, 200
	for name, existing := range map[string]bool{"own client": false, "existing client": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, threeMasters(t), rate, nil)
			s.job.Existing = existing
			s.job.Queues = append(s.job.Queues, s.job.Queues[0]+"-b")
			s.enqueue(0, tasks)
			var first, second *worker
			s.rush(func() { first, second = s.start(), s.start() })
			s.done(0)
			first.end(syscall.SIGTERM)
			second.end(syscall.SIGTERM)
			s.eachOnce(tasks)
			s.measure(map[string]any{"masters": 3, "queues": 2, "processes": 2})
		})
	}
}
