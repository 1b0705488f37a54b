package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asynq and the limiter on a Redis Cluster of three masters: two queues, each in
// a slot of its own, share one limit in a third.
func TestAsynqOnCluster(t *testing.T) {
	long(t, "takes 15 s")
	const rate, tasks = 100, 800
	for name, existing := range map[string]bool{"own client": false, "existing client": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, threeMasters(t), rate, nil)
			s.job.Existing = existing
			s.job.Queues = append(s.job.Queues, s.job.Queues[0]+"-b")
			s.enqueue(0, tasks)
			var first, second *worker
			s.rush(func() { first, second = s.start(), s.start() })
			s.done(40*time.Second, 0)
			first.end(syscall.SIGTERM)
			second.end(syscall.SIGTERM)
			summary := s.provider.Summary()
			t.Logf("CLUSTER of 3 masters, 2 queues, 2 processes, %s: %d tasks at %d/s, %d refused, utilization %.4f, order %.4f",
				name, tasks, rate, summary.Refused, summary.Utilization(rate, 1), s.order())
			s.eachOnce(tasks)
			require.GreaterOrEqual(t, summary.Utilization(rate, 1), 0.98)
		})
	}
}
