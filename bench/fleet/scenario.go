package fleet

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

// Calls of a limit with slots take from shortest to longest, evenly spread.
const shortest, longest = 5 * time.Millisecond, 50 * time.Millisecond

const (
	// burstShare is the part of the API's burst that limiters get. Calls that leave evenly do not
	// arrive evenly; the rest of the burst is for that.
	burstShare = 0.5

	// paceShare is the part of the API's rate that limiters get where it allows no burst.
	paceShare = 0.98
)

// forLimiters is what every contender's limiter is set to.
func (l limit) forLimiters() (rate float64, burst int) {
	if l.Burst == 1 {
		return l.Rate * paceShare, 1
	}
	return l.Rate, int(float64(l.Burst) * burstShare)
}

// most is how many calls the API accepts in a window that begins with a full bucket.
func (l limit) most(window time.Duration) float64 {
	if l.Slots > 0 {
		return float64(l.Slots) * (1 + window.Seconds()/((shortest+longest)/2).Seconds())
	}
	return float64(l.Burst) - 1 + math.Ceil(l.Rate*window.Seconds())
}

// job is one task: a call to the API of its line.
type job struct {
	id   string
	line string // the name of a limit; with a tenant's after a slash

	group    string        // one of the scenario's, whose waits are compared
	flow     string        // whose task it is, of those that share the limit; empty: nobody says
	urgent   bool          // somebody waits for it
	after    time.Duration // how long after the first one it is enqueued
	enqueued time.Time     // when it was
}

func splitLine(line string) (limitName, tenant string) {
	limitName, tenant, _ = strings.Cut(line, "/")
	return limitName, tenant
}

func (j *job) task() *asynq.Task {
	turn := worker.Turn{Flow: j.flow, Urgent: j.urgent}
	return asynq.NewTaskWithHeaders("call", []byte(j.line), turn.Headers())
}

// queue is that of asynq. Who is to be first must be in a worker, and not behind a backlog.
func (j *job) queue() string {
	if j.after > 0 || j.urgent {
		return "soon"
	}
	return "default"
}

// The recipe archives a task that is put back more often than maxRetry.
const maxRetry, timeout = 1_000, 30 * time.Minute

func (j *job) options() []asynq.Option {
	return []asynq.Option{asynq.TaskID(j.id), asynq.MaxRetry(maxRetry), asynq.Timeout(timeout), asynq.Queue(j.queue())}
}

// scenario is the work.
type scenario struct {
	name    string
	limits  []limit
	tenants int      // that each have the limit for themselves; 0: there are none
	groups  []string // of tasks whose waits are compared
	jobs    []job
}

func (s *scenario) limit(name string) (limit, error) {
	for _, l := range s.limits {
		if l.Name == name {
			return l, nil
		}
	}
	return limit{}, fmt.Errorf("there is no limit %q", name)
}

const (
	usualTasks, floodTasks = 2_000, 20_000
	tenants                = 200
	everySlow              = 5 // every fifth task of mixed
)

var scenarioNames = []string{"one", "mixed", "tenants", "flood", "urgent", "slots"}

// scenarioOf is the work that the options name.
func scenarioOf(o options) (scenario, error) {
	s := scenario{name: o.scenario, limits: []limit{{Name: "api", Rate: 100, Burst: 10}}}
	tasks := o.tasks
	switch {
	case tasks > 0:
	case o.scenario == "flood", o.scenario == "urgent":
		tasks = floodTasks
	default:
		tasks = usualTasks
	}
	line := func(int) string { return "api" }
	switch o.scenario {
	case "one":
	case "mixed":
		s.limits = []limit{{Name: "slow", Rate: 5, Burst: 2}, {Name: "fast", Rate: 100, Burst: 10}}
		line = func(i int) string {
			if i%everySlow == everySlow-1 {
				return "slow"
			}
			return "fast"
		}
	case "tenants":
		s.limits, s.tenants = []limit{{Name: "api", Rate: 1, Burst: 1}}, tenants
		tasks = max(tasks, tenants*int(o.seconds.Seconds()*3/2))
		line = func(i int) string { return fmt.Sprintf("api/%03d", i%tenants) }
	case "slots":
		s.limits = []limit{{Name: "api", Slots: o.slots}}
		tasks = max(tasks, int(2*s.limits[0].most(o.seconds)))
	case "flood":
		s.limits[0].Rate = 50
		for i := range o.flooders {
			s.groups = append(s.groups, fmt.Sprintf("flood-%02d", i+1))
		}
		for i := range o.others * int(o.seconds.Seconds()-1) {
			s.jobs = append(s.jobs, job{line: "api", group: "others", flow: "tenant-" + strconv.Itoa(i%o.others),
				after: 1 + time.Duration(i)*time.Second/time.Duration(o.others)})
		}
	case "urgent":
		s.groups = []string{"batch"}
		for i := range int(o.seconds.Seconds() - 1) {
			s.jobs = append(s.jobs, job{line: "api", group: "urgent", flow: "person", urgent: true, after: 1 + time.Duration(i)*time.Second})
		}
	default:
		return s, fmt.Errorf("there is no scenario %q: want one of %s", o.scenario, strings.Join(scenarioNames, ", "))
	}
	backlog := make([]job, tasks)
	for i := range backlog {
		backlog[i].line = line(i)
		if len(s.groups) > 0 {
			backlog[i].group = s.groups[i%len(s.groups)]
			backlog[i].flow = backlog[i].group
		}
	}
	if s.tenants > 0 {
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(backlog), func(i, j int) { backlog[i], backlog[j] = backlog[j], backlog[i] })
	}
	if len(s.jobs) > 0 {
		s.groups = append(s.groups, s.jobs[0].group)
	}
	s.jobs = slices.Concat(backlog, s.jobs)
	for i := range s.jobs {
		s.jobs[i].id = strconv.Itoa(i)
		if o.noShares {
			s.jobs[i].flow = ""
		}
	}
	return s, nil
}
