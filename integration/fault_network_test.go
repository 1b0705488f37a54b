package integration

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A round trip takes 200 ms, give or take 100 ms, half of it on each way. (If all
// of it were on the way back, replies would differ by up to 200 ms; the provider
// bears 90 ms.)
func latency(s *faultScene) {
	ways, urls := s.proxies("")
	s.load(urls...)
	s.fault(func() {
		for _, p := range ways {
			p.add("latency", requests, map[string]int{"latency": 100, "jitter": 50})
			p.add("latency", replies, map[string]int{"latency": 100, "jitter": 50})
		}
		time.Sleep(5 * time.Second)
		for _, p := range ways {
			p.heal(requests, replies)
		}
	})
	s.close(faultVerdict{})
}

// One reply in twenty is lost, and its connection with it, after Redis has done
// what it was asked.
func repliesCut(s *faultScene) {
	ways, urls := s.proxies("")
	s.load(urls...)
	before := cuts.Load()
	s.fault(func() {
		for _, p := range ways {
			p.add("cut", replies, cut{Part: 0.05})
		}
		time.Sleep(5 * time.Second)
		for _, p := range ways {
			p.heal(replies)
		}
	})
	lost := cuts.Load() - before
	require.Positive(s, lost)
	s.Logf("%d replies were cut", lost)
	s.close(faultVerdict{})
}

// One of four workers reaches nothing of Redis for 10 s, and goes on with its
// share. The others cannot know that it does.
func partitionLocal(s *faultScene) {
	s.partitionOne()
	// It calls by itself after three calls of 300 ms each, and pauses.
	const alone = 2 * time.Second
	var own, others []faultCall
	for _, c := range s.history() {
		if c.worker == 0 {
			own = append(own, c)
		} else {
			others = append(others, c)
		}
	}
	rate := rateBetween(own, s.broken.Add(alone), s.mended)
	s.Logf("the worker alone makes %.1f calls per second", rate)
	assert.InDelta(s, safety*faultRate/faultWorkers, rate, 1, "calls per second of the worker alone")
	assert.Empty(s, refusals(others, faultRate), "calls of the others that the provider refuses")
	s.close(faultVerdict{extra: safety / faultWorkers})
}

// One of four workers reaches nothing of Redis for 10 s, and waits.
func partitionWait(s *faultScene) {
	s.job.Policy = "wait"
	s.partitionOne()
	s.close(faultVerdict{})
}

// partitionOne loses all that goes to and from the first worker. Its calls to
// Redis give up after 300 ms, as where an outage is to be noticed fast.
func (s *faultScene) partitionOne() {
	s.Helper()
	ways, urls := s.proxies("?dial_timeout=300ms&read_timeout=300ms&write_timeout=300ms")
	s.load(urls...)
	s.fault(func() {
		ways[0].add("timeout", requests, map[string]int{"timeout": 0})
		ways[0].add("timeout", replies, map[string]int{"timeout": 0})
		time.Sleep(10 * time.Second)
		ways[0].heal(requests, replies)
	})
}
