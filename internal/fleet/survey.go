package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
)

// Process is one process of a fleet.
type Process struct {
	ID     string      `json:"id"`
	Alive  bool        `json:"alive"`
	Silent float64     `json:"silent"` // seconds since its last heartbeat or, if it has ended or died, since Redis noted that
	Limit  string      `json:"limit,omitempty"`
	Fails  time.Time   `json:"fails,omitzero"` // since when its calls fail: a limit of another kind is in force
	Report wire.Report `json:"report"`

	// Unsure says that it is not known whether the process is alive: it was silent, but Redis is or was full meanwhile, or
	// has just started.
	Unsure bool `json:"unsure,omitempty"`

	quiet     bool   // it is silent, and no other process has found it dead
	meanwhile string // why Redis took no heartbeats, if it is unsure
}

// Beat says when the process sent its last heartbeat.
func (p *Process) Beat() string {
	switch {
	case p.Alive && !p.Fails.IsZero():
		return Span(p.Silent) + " ago, its calls fail"
	case p.Alive:
		return Span(p.Silent) + " ago"
	case p.Unsure:
		return Span(p.Silent) + " ago, " + p.meanwhile
	case p.Report.Closed:
		return "closed"
	case p.Report.Ended: // its limiter had no calls for a while
		return "idle"
	}
	switch {
	case p.Silent == 0: // since when is unknown
		return "dead"
	case p.quiet:
		return Span(p.Silent) + " ago, dead"
	}
	return "found dead " + Span(p.Silent) + " ago"
}

// Protocol is the protocol that the process speaks, for people. A process that has ended does not say it if it was of v0.2.
func (p *Process) Protocol() string {
	switch p.Report.Protocol {
	case 0:
		return "-"
	case old:
		return "2 (v0.2)"
	}
	return strconv.Itoa(p.Report.Protocol)
}

// Up says since when the process runs, as far as is known.
func (p *Process) Up(now time.Time) string {
	if !p.Alive && (p.Report.Closed || !p.Report.Ended) {
		return "-"
	}
	return now.Sub(time.Unix(p.Report.Started, 0)).Round(time.Second).String()
}

// Queue is the waiting calls of live processes, for one key or one flow.
type Queue struct {
	Key     string  `json:"key"`
	Calls   int     `json:"calls"`
	Oldest  float64 `json:"oldest"`  // seconds
	Used    int64   `json:"used"`    // calls of all known processes since their start
	Permits int64   `json:"permits"` // the permits of these calls

	HeldBy   string `json:"heldBy,omitempty"`   // the other limit that holds back the most calls
	HeldBack int    `json:"heldBack,omitempty"` // how many it holds back
	HeldElse int    `json:"heldElse,omitempty"` // how many further limits hold back

	heldBy map[string]int
	left   int // calls that waited in the last processes, by their last reports
}

// Survey is what the heartbeats of the processes say about a limit.
type Survey struct {
	Name
	Limit     string            `json:"limit"`            // the configured limit, the slowest one; empty: unknown
	Differ    map[string]int    `json:"differ,omitempty"` // limit -> processes, if processes have different limits
	Processes []Process         `json:"processes"`
	Keys      []Queue           `json:"keys"`
	Flows     []Queue           `json:"flows,omitempty"`
	SetBy     map[string]string `json:"setBy,omitempty"` // by key: who has set the override, if that is known
	Protocols []int             `json:"protocols"`       // of the living processes of the group, the lowest first; 2: v0.2

	at    time.Time     // local time of the reading
	whole time.Duration // since when the heartbeats of the fleet have no gap, until the reading; 0: unknown
	flags []string      // of the commands: see Reader.Flags
}

// Alive is how many processes are alive, without processes whose calls fail.
func (s *Survey) Alive() (n int) {
	for i := range s.Processes {
		if s.Processes[i].Alive && s.Processes[i].Fails.IsZero() {
			n++
		}
	}
	return n
}

// Living is how many processes are alive, with processes whose calls fail.
func (s *Survey) Living() int { return s.Alive() + len(s.Unfit()) }

// Dead is how many processes died in the last ten minutes. A process that signed off did not die.
func (s *Survey) Dead() (n int) {
	for i := range s.Processes {
		if p := &s.Processes[i]; !p.Alive && !p.Report.Ended && !p.Unsure {
			n++
		}
	}
	return n
}

// gone is for how long a process has been gone, at least. A process counts as dead after a silence.
func (p *Process) gone() float64 {
	if p.Alive || p.quiet || p.Report.Ended {
		return p.Silent
	}
	return p.Silent + silent.Seconds()
}

// unsure is how many processes were silent while Redis took no heartbeats, and for how long: whether they live is not
// known. It says why Redis took none.
func (s *Survey) unsure() (n int, silence time.Duration, meanwhile string) {
	for i := range s.Processes {
		if p := &s.Processes[i]; p.Unsure {
			if ago := seconds(p.Silent); n == 0 || ago < silence {
				silence, meanwhile = ago, p.meanwhile
			}
			n++
		}
	}
	return n, silence, meanwhile
}

// perhaps is how many processes may be alive, if none is known to be.
func (s *Survey) perhaps() int {
	if s.Living() > 0 {
		return 0
	}
	n, _, _ := s.unsure()
	return n
}

// idle is how many processes have made no call for a while, and have not closed their limiter.
func (s *Survey) idle() (n int) {
	for i := range s.Processes {
		if p := &s.Processes[i]; !p.Alive && p.Report.Ended && !p.Report.Closed {
			n++
		}
	}
	return n
}

// closed is in how many seconds before now the last process closed its limiter, if all known processes have.
func (s *Survey) closed() (ago float64, all bool) {
	if len(s.Processes) == 0 || s.Living()+s.Dead()+s.idle() > 0 {
		return 0, false
	}
	return slices.MinFunc(s.Processes, func(x, y Process) int { return cmp.Compare(x.Silent, y.Silent) }).Silent, true
}

// Waiting is how many calls wait in live processes, by their reports.
func (s *Survey) Waiting() (calls int) {
	for _, k := range s.Keys {
		calls += k.Calls
	}
	return calls
}

// silent is how long a process may send no heartbeat before it counts as dead.
const silent = 3 * time.Second

// late is how long no heartbeat may come before an answer mentions it. A process sends one at least every 1.25 s.
// lateIdle is how long, if permits are available that no waiting call has taken.
const late, lateIdle = 2 * time.Second, 1400 * time.Millisecond

// last is the living process that sent the latest heartbeat, or nil. Processes whose calls fail do not count.
func (s *Survey) last() (last *Process) {
	for i := range s.Processes {
		if p := &s.Processes[i]; p.Alive && p.Fails.IsZero() && (last == nil || p.Silent < last.Silent) {
			last = p
		}
	}
	return last
}

// setter begins the fields of reports that say who has set a limit. It starts with a space, which
// the names of processes do not have.
const setter = " set "

// Survey reads the reports of a limit's processes.
func (r *Reader) Survey(ctx context.Context, n Name) (*Survey, error) {
	keys := lua.BeatKeys(r.prefix, n.Group, n.Name)
	var beats *redis.ZSliceCmd
	var limits, reports, spoken *redis.MapStringStringCmd
	var clock *redis.TimeCmd
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		beats = p.ZRangeWithScores(ctx, keys[0], 0, -1)
		spoken, limits, reports = p.HGetAll(ctx, keys[1]), p.HGetAll(ctx, keys[2]), p.HGetAll(ctx, keys[3])
		clock = p.Time(ctx)
		return nil
	})
	if err != nil {
		return nil, classified(fmt.Sprintf("read the processes of %q", n), err)
	}
	s := &Survey{Name: n, Limit: limits.Val()[" limit"], at: time.Now(), flags: r.Flags}
	s.listProtocols(spoken.Val(), limits.Val(), clock.Val())
	if since, err := strconv.ParseInt(spoken.Val()["since"], 10, 64); err == nil {
		s.whole = clock.Val().Sub(time.UnixMicro(since))
	}
	last := map[string]float64{} // moments of heartbeats; below 0 for dead processes
	for _, beat := range beats.Val() {
		id, _ := beat.Member.(string)
		last[id] = beat.Score
	}
	for id, text := range limits.Val() {
		if strings.HasPrefix(id, " ") { // not a process: the limit in force
			continue
		}
		p := Process{ID: id}
		pace, limit, _ := strings.Cut(text, " ")
		score, known := last[id]
		if pace == "!" { // its calls fail; the moment since when follows
			since, own, _ := strings.Cut(limit, " ")
			micros, _ := strconv.ParseInt(since, 10, 64)
			p.Fails, limit = s.at.Add(-max(0, clock.Val().Sub(time.UnixMicro(micros)))).Round(time.Millisecond), own
		}
		if pace == "-" { // it has ended; the moment follows
			micros, _ := strconv.ParseFloat(limit, 64)
			score = -micros
		} else if p.Limit = limit; !known && !s.hasOld() { // it died long ago
			continue
		}
		ago := max(0, clock.Val().Sub(time.UnixMicro(int64(max(score, -score)))))
		if !known && pace != "-" {
			ago = 0
		}
		p.Silent, p.Alive = ago.Round(time.Millisecond).Seconds(), score > 0 && ago < silent
		p.quiet = score > 0 && ago >= silent
		_ = json.Unmarshal([]byte(reports.Val()[id]), &p.Report) // a process of another version may report other fields
		if p.Report.Protocol == 0 && p.Report.PID > 0 && pace != "-" && s.hasOld() {
			p.Report.Protocol = old
			p.Alive = p.Alive || !known // its heartbeats have other keys in a group
		}
		s.Processes = append(s.Processes, p)
	}
	slices.SortFunc(s.Processes, func(x, y Process) int {
		return cmp.Or(cmp.Compare(x.Report.Host, y.Report.Host), cmp.Compare(x.Report.PID, y.Report.PID), cmp.Compare(x.ID, y.ID))
	})
	for field, text := range reports.Val() {
		if key, ok := strings.CutPrefix(field, setter); ok {
			if s.SetBy == nil {
				s.SetBy = map[string]string{}
			}
			s.SetBy[key] = text
		}
	}
	s.count()
	return s, nil
}

// count adds up the reports of the processes.
func (s *Survey) count() {
	limits, byKey, byFlow := map[string]int{}, map[string]*Queue{}, map[string]*Queue{}
	add := func(all map[string]*Queue, key string) *Queue {
		if all[key] == nil {
			all[key] = &Queue{Key: key}
		}
		return all[key]
	}
	last := math.Inf(1) // a process that was gone a silence before died while others lived on
	for i := range s.Processes {
		last = min(last, s.Processes[i].gone())
	}
	for i := range s.Processes {
		p := &s.Processes[i]
		if p.Alive && p.Limit != "" && p.Fails.IsZero() {
			limits[p.Limit]++
		}
		for _, u := range p.Report.Used {
			q := add(byKey, u.Key)
			q.Used, q.Permits = q.Used+u.Calls, q.Permits+u.Permits
		}
		if !p.Alive {
			for _, w := range p.Report.Waiting {
				if w.HeldBy == "" && !p.Report.Ended && p.gone() < last+silent.Seconds() { // else another limit counts them, or others lived on
					add(byKey, w.Key).left += w.Calls
				}
			}
			continue
		}
		for _, w := range p.Report.Waiting {
			queues := []*Queue{add(byKey, w.Key)}
			if w.Flow != "" {
				queues = append(queues, add(byFlow, w.Flow))
			}
			for _, q := range queues {
				q.Calls += w.Calls
				q.Oldest = max(q.Oldest, w.Oldest)
				if w.HeldBy != "" {
					q.held(w.HeldBy, w.Calls)
				}
			}
		}
	}
	if len(limits) > 1 {
		s.Differ = limits
	}
	s.Keys, s.Flows = ordered(byKey), ordered(byFlow)
}

// FlowsOf returns the flows whose calls wait for a key, as Flows does for all keys together, and what is due to each of them
// by its weight. Calls without a flow are not among them.
func (s *Survey) FlowsOf(key string) []Flow {
	byFlow, weights, sum := map[string]*Queue{}, map[string]float64{}, 0.
	for i := range s.Processes {
		p := &s.Processes[i]
		for _, w := range p.Report.Waiting {
			if !p.Alive || w.Key != key || w.Flow == "" {
				continue
			}
			if byFlow[w.Flow] == nil {
				byFlow[w.Flow] = &Queue{Key: w.Flow}
			}
			q := byFlow[w.Flow]
			q.Calls, q.Oldest = q.Calls+w.Calls, max(q.Oldest, w.Oldest)
			sum += w.Weight - weights[w.Flow]
			weights[w.Flow] = w.Weight
		}
	}
	var flows []Flow
	for _, q := range ordered(byFlow) {
		flows = append(flows, Flow{q, weights[q.Key], weights[q.Key] / max(1e-9, sum)})
	}
	return flows
}

// Flow is the calls of a flow that wait.
type Flow struct {
	Queue
	Weight float64
	Due    float64 // its part of the turns while all these flows have calls that wait, from 0 to 1
}

// held counts calls that another limit holds back.
func (q *Queue) held(by string, calls int) {
	if q.heldBy == nil {
		q.heldBy = map[string]int{}
	}
	q.heldBy[by] += calls
	q.HeldElse += calls + q.HeldBack
	if n := q.heldBy[by]; n > q.HeldBack || by == q.HeldBy {
		q.HeldBy, q.HeldBack = by, n
	}
	q.HeldElse -= q.HeldBack
}

// ordered returns the queues with the most calls first, then those with the most that dead processes left.
func ordered(all map[string]*Queue) []Queue {
	queues := []Queue{}
	for _, q := range slices.Collect(maps.Values(all)) {
		queues = append(queues, *q)
	}
	slices.SortFunc(queues, func(x, y Queue) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(y.left, x.left), cmp.Compare(y.Used, x.Used), cmp.Compare(x.Key, y.Key))
	})
	return queues
}

// SetBy stores who has set an override of a key, for people. It needs the right to write.
func (r *Reader) SetBy(ctx context.Context, n Name, key, who string) error {
	return classified("note who has set a limit", r.client.HSet(ctx, lua.BeatKeys(r.prefix, n.Group, n.Name)[3], setter+key, who).Err())
}
