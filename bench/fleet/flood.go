package main

import (
	"fmt"
	"strconv"
	"time"
)

// flood is a scenario of tenants that share a limit: some have all their tasks at once, the others
// one each second. Where they do not share it by tenant, it is first come, first served.
func flood(flooders, others int, shares bool) scenario {
	flooder := func(i int) string {
		if flooders == 1 {
			return "flood"
		}
		return fmt.Sprintf("flood-%02d", i%flooders+1)
	}
	s := scenario{
		name:   "flood",
		limits: []limit{{Name: "api", Rate: 50, Burst: 10}},
		jobs: func(tasks int, window time.Duration) []job {
			var slow []job
			for i := range others * int(window.Seconds()-1) {
				slow = append(slow, job{line: "api", group: "others", flow: "tenant-" + strconv.Itoa(i%others),
					after: time.Duration(i) * time.Second / time.Duration(others)})
			}
			jobs := flooded(tasks, flooder, slow)
			for i := range jobs {
				if !shares {
					jobs[i].flow = ""
				}
			}
			return jobs
		},
	}
	for i := range flooders {
		s.groups = append(s.groups, flooder(i))
	}
	if others > 0 {
		s.groups = append(s.groups, "others")
	}
	return s
}

const floodTasks = 20_000

// flooded is a backlog of so many tasks, each of a group that is a flow, and others that come in time.
func flooded(tasks int, group func(i int) string, others []job) []job {
	if tasks == 0 {
		tasks = floodTasks
	}
	jobs := make([]job, tasks, tasks+len(others))
	for i := range jobs {
		jobs[i] = job{line: "api", group: group(i), flow: group(i)}
	}
	jobs = append(jobs, others...)
	for i := range jobs {
		jobs[i].id = strconv.Itoa(i)
	}
	return jobs
}
