package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/worker"
)

// limit is what an API allows.
type limit struct {
	Name  string
	Rate  float64 // per second
	Burst int
	Slots int // calls at once, in place of the others; 0: any number
}

// Calls of a limit with slots take from leastCall to mostCall, evenly spread.
const leastCall, mostCall = 5 * time.Millisecond, 50 * time.Millisecond

const (
	// burstShare is the part of the API's burst that limiters get. Calls that
	// leave evenly do not arrive evenly; the rest of the burst bears that.
	burstShare = 0.5

	// paceShare is the part of the API's rate that limiters get where there is
	// no burst to share, so that any jitter would be refused.
	paceShare = 0.98
)

// forLimiters is what every contender's limiter is set to.
func (l limit) forLimiters() (rate float64, burst int) {
	if l.Burst == 1 {
		return l.Rate * paceShare, 1
	}
	return l.Rate, int(float64(l.Burst) * burstShare)
}

// most is how many calls the API accepts at most in a window of this length that
// begins with a full bucket and does not include its end.
func (l limit) most(window time.Duration) int {
	if l.Slots > 0 {
		return l.Slots + int(float64(l.Slots)*window.Seconds()/((leastCall+mostCall)/2).Seconds())
	}
	return l.Burst - 1 + int(math.Ceil(l.Rate*window.Seconds()))
}

// scenario is the work.
type scenario struct {
	name    string
	limits  []limit
	tenants int      // that each have the limit for themselves; 0: there are none
	groups  []string // of tasks whose waits are compared
	jobs    func(tasks int, window time.Duration) []job
}

// job is one task: a call to the API of its line.
type job struct {
	id   string
	line string // the name of a limit; with a tenant's after a slash

	group    string        // one of the scenario's
	flow     string        // whose task it is, of those that share the limit; empty: nobody says
	urgent   bool          // somebody waits for it
	after    time.Duration // how long after the first one it is enqueued
	enqueued time.Time     // when it was
}

const (
	usualTasks = 2_000
	tenants    = 200
	everySlow  = 5 // every fifth task of mixed
)

var scenarios = map[string]scenario{
	"one": {
		name:   "one",
		limits: []limit{{Name: "api", Rate: 100, Burst: 10}},
		jobs: func(tasks int, _ time.Duration) []job {
			return number(tasks, func(int) string { return "api" })
		},
	},
	"mixed": {
		name:   "mixed",
		limits: []limit{{Name: "slow", Rate: 5, Burst: 2}, {Name: "fast", Rate: 100, Burst: 10}},
		jobs: func(tasks int, _ time.Duration) []job {
			return number(tasks, func(i int) string {
				if i%everySlow == everySlow-1 {
					return "slow"
				}
				return "fast"
			})
		},
	},
	"flood": flood(1, 10, true),
	"urgent": {
		name:   "urgent",
		limits: []limit{{Name: "api", Rate: 100, Burst: 10}},
		groups: []string{"batch", "urgent"},
		jobs: func(tasks int, window time.Duration) []job {
			var others []job
			for i := range int(window.Seconds() - 1) {
				others = append(others, job{line: "api", group: "urgent", flow: "person", urgent: true, after: time.Duration(i) * time.Second})
			}
			return flooded(tasks, func(int) string { return "batch" }, others)
		},
	},
	"slots": {
		name:   "slots",
		limits: []limit{{Name: "api", Slots: 10}},
		jobs: func(tasks int, _ time.Duration) []job {
			if tasks == 0 {
				tasks = slotTasks
			}
			return number(tasks, func(int) string { return "api" })
		},
	},
	"tenants": {
		name:    "tenants",
		limits:  []limit{{Name: "api", Rate: 1, Burst: 1}},
		tenants: tenants,
		jobs: func(tasks int, window time.Duration) []job {
			if tasks == 0 {
				tasks = tenants * (int(math.Ceil(window.Seconds())) + 5)
			}
			order := rand.New(rand.NewPCG(1, 2)).Perm(tasks) // the same for everybody
			return number(tasks, func(i int) string { return fmt.Sprintf("api/tenant-%03d", order[i]%tenants) })
		},
	},
}

const slotTasks = 10_000

func number(tasks int, line func(i int) string) []job {
	if tasks == 0 {
		tasks = usualTasks
	}
	jobs := make([]job, tasks)
	for i := range jobs {
		jobs[i] = job{id: strconv.Itoa(i), line: line(i)}
	}
	return jobs
}

func splitLine(line string) (limitName, tenant string) {
	limitName, tenant, _ = strings.Cut(line, "/")
	return limitName, tenant
}

func limitNamed(limits []limit, name string) (limit, error) {
	for _, l := range limits {
		if l.Name == name {
			return l, nil
		}
	}
	return limit{}, fmt.Errorf("there is no limit %q", name)
}

func (j job) task() *asynq.Task {
	turn := worker.Turn{Flow: j.flow, Urgent: j.urgent}
	return asynq.NewTaskWithHeaders("call", []byte(j.line), turn.Headers())
}

// queues are those of asynq that jobs are in.
func queues(jobs []job) (names []string) {
	for _, j := range jobs {
		if !slices.Contains(names, j.queue()) {
			names = append(names, j.queue())
		}
	}
	return names
}

// queue is that of asynq. Who is to be first must be in a worker: not behind a backlog.
func (j job) queue() string {
	if j.group == "others" || j.urgent {
		return "soon"
	}
	return "default"
}

const (
	maxRetry = 1_000            // the recipe archives a task that is put back more often
	timeout  = 30 * time.Minute // never over
)

func (j job) options() []asynq.Option {
	return []asynq.Option{asynq.TaskID(j.id), asynq.MaxRetry(maxRetry), asynq.Timeout(timeout), asynq.Queue(j.queue())}
}

// most is how many calls all limits together accept at most.
func (s scenario) most(window time.Duration) int {
	calls := 0
	for _, l := range s.limits {
		calls += l.most(window) * max(1, s.tenants)
	}
	return calls
}
