package integration

import "time"

// A round trip takes 200 ms, plus or minus 100 ms, half of it in each direction.
func latency(s *faultScene) {
	ways, urls := s.proxies("")
	s.load(urls...)
	s.fault(func() {
		for _, p := range ways {
			p.add("latency", requests, map[string]int{"latency": 100, "jitter": 50})
			p.add("latency", replies, map[string]int{"latency": 100, "jitter": 50})
		}
		time.Sleep(2 * time.Second)
		for _, p := range ways {
			p.heal(requests, replies)
		}
	})
	s.close(faultVerdict{})
}

// One reply in twenty is lost, and its connection with it, after Redis has run the command.
func repliesCut(s *faultScene) {
	ways, urls := s.proxies("")
	s.load(urls...)
	before := cuts.Load()
	s.fault(func() {
		for _, p := range ways {
			p.add("cut", replies, cut{Part: 0.05})
		}
		time.Sleep(2 * time.Second)
		s.within(func() bool { return cuts.Load() > before }, "some replies are cut")
		for _, p := range ways {
			p.heal(replies)
		}
	})
	lost := cuts.Load() - before
	s.Logf("%d replies were cut", lost)
	s.close(faultVerdict{})
}

// One of four workers cannot reach Redis and continues with its share. The others cannot know that
// it does.
func partitionLocal(s *faultScene) {
	s.partitionOne(func() { s.untilAlone(1) })
	s.close(faultVerdict{extra: safety / faultWorkers})
}

// One of four workers cannot reach Redis, and waits.
func partitionWait(s *faultScene) {
	s.job.Policy = "wait"
	s.partitionOne(func() { time.Sleep(6 * time.Second) })
	s.close(faultVerdict{obedient: true})
}

// partitionOne cuts the network between the first worker and Redis. Its calls to Redis time out
// after 1.5 s: sooner than by default, but not in a stall of the machine.
func (s *faultScene) partitionOne(known func()) {
	s.Helper()
	ways, urls := s.proxies("?dial_timeout=1500ms&read_timeout=1500ms&write_timeout=1500ms")
	s.load(urls...)
	s.fault(func() {
		ways[0].add("timeout", requests, map[string]int{"timeout": 0})
		ways[0].add("timeout", replies, map[string]int{"timeout": 0})
		known()
		ways[0].heal(requests, replies)
	})
}
