package wire

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	scripts "github.com/fleetpace/fleetpace/lua"
)

// Terms are the kind and the numbers of a limit, as the scripts know it.
type Terms struct {
	Kind string // p, q, r, s or w: see head.lua, also for A and B
	A, B float64
	// Edges returns the edges of a quota's windows, in micros of Redis's clock. They begin at the window of
	// a moment or the one before, and at least three are later than the moment.
	Edges func(micros int64) []int64
	// Calendar is the text of a quota's windows: see calendar.Edges. It is empty for other kinds.
	Calendar string
	// Late is for how many micros after its moment a turn of a rolling limit may be used. B is longer by more.
	Late int64
}

// like reports whether two limits have the same kind and calendar.
func (t *Terms) like(other *Terms) bool { return t.Kind == other.Kind && t.Calendar == other.Calendar }

// Same reports whether two limits are the same.
func (t *Terms) Same(other Terms) bool { return t.like(&other) && t.A == other.A && t.B == other.B }

// Limit is a limit under one key, and what this process remembers about it. It is safe for concurrent use.
type Limit struct {
	Terms          // guarded by mu, as another plan may come
	Keys  []string // as lua.Keys returns them
	Key   string   // the tenant or host; empty: none
	Name  *Name

	Calls   atomic.Int64 // calls that this process has made …
	Further atomic.Int64 // … and the permits that they cost beyond one each

	// Lease is for how long turns may be taken ahead of calls; 0: no turns are.
	Lease time.Duration

	// Plans says that the limit comes from the program, which may change it: see Plan.
	Plans bool

	// MaxWaiting is how many calls of the fleet may wait or be booked; 0: any number.
	MaxWaiting int

	// Spent is the last ask of this process that spent permits and may still return some. It belongs to the
	// engine, which guards it with its lock.
	Spent string

	// Ahead is what the engine has ahead of calls. Since and Count are when the engine looked last how many
	// permits calls had used, and how many these were; its lock guards them.
	Ahead atomic.Value
	Since time.Time
	Count int64

	kind *Kind
	is   atomic.Pointer[Kind] // the kind, for calls that do not lock
	base *Terms               // as the keys say
	keys []any                // as arguments of a command
	a, b string               // as texts
	form string               // the argument KIND: see head.lua

	mu      sync.Mutex
	known   string // the text of the last reply, without its ~
	version int64  // of the last reply …
	reach   string // … and its reach …
	heard   time.Time
	micros  int64         // Redis's time in the last reply
	off     time.Duration // Redis's clock less the clock of this machine, from a reply about a limit without state
	stepped time.Time     // when that reply arrived
	inForce inForce
	plan    int64 // the version of the plan; 0: no plan
	unsaid  bool  // no script call has told Redis of the plan yet
	calm    bool  // calls took the common path, in the last reply

	stopped atomic.Pointer[Stopped] // the hard stop of the last reply; nil: none
	served  time.Time               // when this process learned last that a hard stop has ended
}

// NewLimit returns a limit without any remembered state.
func NewLimit(terms Terms, keys []string, name *Name) *Limit {
	l := &Limit{base: name.baseOf(&terms), Keys: keys, Name: name}
	l.become(terms)
	l.keys = make([]any, 0, len(keys))
	for i, key := range keys {
		if len(name.Life) > 0 && key == name.Life[0] {
			keys[i] = name.Life[0] // all limits of a name share it: a process may know 20,000
		}
		l.keys = append(l.keys, keys[i])
	}
	return l
}

// Copy returns another limit under the same key, with the same remembered state. It has counted no calls.
func (l *Limit) Copy() *Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &Limit{Terms: l.Terms, kind: l.kind, base: l.base, form: l.form, Keys: l.Keys, keys: l.keys, Key: l.Key, Name: l.Name, Lease: l.Lease, MaxWaiting: l.MaxWaiting, a: l.a, b: l.b, known: l.known, version: l.version,
		reach: l.reach, heard: l.heard, micros: l.micros, off: l.off, inForce: l.inForce, Plans: l.Plans, plan: l.plan, unsaid: l.unsaid, calm: l.calm}
	c.is.Store(l.kind)
	return c
}

// Used returns how many permits calls of this process have used.
func (l *Limit) Used() int64 { return l.Calls.Load() + l.Further.Load() }

func exact(x float64) string { return strconv.FormatFloat(x, 'g', 17, 64) }

// String returns its name, and its key after a slash.
func (l *Limit) String() string {
	if l.Key == "" {
		return l.Name.Text
	}
	return l.Name.Text + "/" + l.Key
}

// InForce returns the A and B of the last reply, or those of this process if there was no reply.
func (l *Limit) InForce() (a, b float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inForce.a, l.inForce.b
}

// Calm reports whether nobody waited at the time of the last reply: then calls are little work for Redis.
func (l *Limit) Calm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calm
}

// Known reports whether Redis has replied about the limit.
func (l *Limit) Known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reach != "" && !l.heard.IsZero()
}

// Stored returns how many permits of a paced limit nobody has spent, as far as is known. The bucket is to
// lack the permits that come in the time lack.
func (l *Limit) Stored(now time.Time, lack time.Duration) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	free, err := strconv.ParseInt(l.aged(now), 10, 64)
	if !l.kind.Refills || err != nil || l.inForce.a <= 0 {
		return 0
	}
	most := l.inForce.b - math.Ceil(float64(lack.Microseconds())/l.inForce.a)
	return max(0, int64(min(-float64(free)/l.inForce.a, most)))
}

// Left returns how many permits the last reply left in the window of a quota or a rolling limit. The window
// ends after a time, and at a moment of Redis's clock, in micros. Left reports false if nothing is known
// about the current window. A moment in the margin of a quota's window counts in the window before, too.
func (l *Limit) Left(now time.Time) (permits int64, ends int64, after time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reach == "" || l.heard.IsZero() || !l.kind.Windowed {
		return 0, 0, 0, false
	}
	var n [4]int64
	for i, field := range strings.Fields(l.reach) {
		if x, err := strconv.ParseInt(field, 10, 64); err == nil && i < len(n) {
			n[i] = x
		}
	}
	clock, a, b := l.clock(now), int64(l.inForce.a), int64(l.inForce.b)
	used := n[0] // a rolling limit has its permits, and the moment of the last one
	if ends = l.micros + n[1] + b; !l.kind.rolling {
		edges := l.Edges(clock - b)
		k := 0
		for k+2 < len(edges) && edges[k+1] <= clock-b {
			k++
		}
		if ends, used = edges[k+1]+b, 0; edges[k] == n[0] {
			used = n[1]
		} else if edges[k] == n[2] {
			used = n[3]
		}
	}
	after = time.Duration(ends-clock) * time.Microsecond
	return max(0, a-used), ends, after, after > 0
}

// Edge returns when the window of a moment ends at a quota, both by Redis's clock, in micros; 0 for other kinds.
func (l *Limit) Edge(moment int64) int64 {
	if !l.Windowed() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Edges == nil {
		return 0
	}
	edges := l.Edges(moment)
	return edges[slices.IndexFunc(edges, func(edge int64) bool { return edge > moment })]
}

// Window returns how long permits of a rolling limit count, as far as is known; 0 for other kinds.
func (l *Limit) Window() time.Duration {
	if _, b := l.InForce(); l.now().rolling {
		return time.Duration(b) * time.Microsecond
	}
	return 0
}

// Looks returns how long after the last reply a process must look at a limit of slots; 0: none must.
func (l *Limit) Looks() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	fields := strings.Fields(l.reach)
	if !l.kind.Slots || len(fields) < 3 {
		return 0
	}
	micros, _ := strconv.ParseInt(fields[2], 10, 64)
	return time.Duration(micros) * time.Microsecond
}

// noted is the time after a loss of data within which processes report the slots that they hold, as
// heartbeats come about every second. A limit that exists after that time without a report has no slots in
// use.
const noted = 6 * time.Second

// afterLoss is for how long a limit that was never asked sends that data was lost: other processes may have
// had turns. It is longer if a bucket takes longer to fill.
const afterLoss = time.Minute

// tell adds the arguments of the limit, and returns its known text.
func (l *Limit) tell(a *args, c *Call, back string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, lost := c.Now, c.Lost
	known, reach, clock := l.known, l.aged(now), c.Clock
	switch {
	case known != "":
		clock = l.clock(now)
	case c.Unstepped > 0 && l.Edges == nil && !l.kind.Slots: // it was used before the step, as far as anybody here knows
		clock = c.Unstepped
	}
	switch {
	case lost.IsZero() || lost.Before(l.heard):
	case known != "" && l.kind.Slots && now.Sub(lost) >= noted:
		reach = ""
	case known != "":
		reach = l.drained(reach)
	case l.kind.Slots && now.Sub(lost) < noted:
		known, reach = "1", "1 0"
	case l.kind.level && now.Sub(lost) < max(afterLoss, l.fills()):
		known, reach = "1", "0"
	}
	first := a.more(scripts.ArgsOfLimit)
	a.setText(first+scripts.LimitKind, l.form)
	a.setText(first+scripts.LimitA, l.a)
	a.setText(first+scripts.LimitB, l.b)
	l.setRank(a, first+scripts.LimitRank, c.reads)
	a.terms = append(a.terms, inForce{l.A, l.B})
	a.setText(first+scripts.LimitKnown, known)
	a.setNumber(first+scripts.LimitVersion, l.version)
	a.setText(first+scripts.LimitReach, reach)
	a.setText(first+scripts.LimitBack, back)
	a.setNumber(first+scripts.LimitClock, clock)
	if l.Late > 0 {
		a.setNumber(first+scripts.LimitEdges, l.Late)
	}
	if l.Edges != nil {
		micros := clock
		if micros == 0 || l.stepped.After(l.heard) {
			micros = now.Add(l.off).UnixMicro()
		}
		a.setText(first+scripts.LimitEdges, words(l.Edges(micros)))
	}
	return known
}

// fills returns how long an empty bucket fills.
func (l *Limit) fills() time.Duration {
	micros := l.B
	if l.kind.Refills {
		micros *= l.A
	}
	return time.Duration(min(micros, 1e15)) * time.Microsecond
}

func words(numbers []int64) string {
	var b strings.Builder
	for i, n := range numbers {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatInt(n, 10))
	}
	return b.String()
}

// clock returns Redis's time now, by the monotonic clock of this process. A reply may have come sooner than its call
// allowed for: then its time is not reached yet. The limit must be locked.
func (l *Limit) clock(now time.Time) int64 {
	if l.heard.IsZero() {
		return 0
	}
	return l.micros + now.Sub(l.heard).Microseconds()
}

// aged returns the reach as it is now.
func (l *Limit) aged(now time.Time) string {
	return l.eachReach(l.reach, func(micros int64) int64 { return micros - now.Sub(l.heard).Microseconds() })
}

// drained returns a reach that leaves nothing to use: other processes may have used everything since.
func (l *Limit) drained(reach string) string {
	switch {
	case l.kind.Slots: // other processes may hold some
		return "1 0"
	case l.kind.level:
		return l.eachReach(reach, func(micros int64) int64 { return max(micros, 0) })
	default:
		return reach
	}
}

// eachReach changes the number of a reach that is relative.
func (l *Limit) eachReach(reach string, change func(int64) int64) string {
	i := l.kind.relative
	if i < 0 || reach == "" {
		return reach
	}
	if micros, err := strconv.ParseInt(reach, 10, 64); err == nil && i == 0 { // the reach has one number
		return strconv.FormatInt(change(micros), 10)
	}
	fields := strings.Fields(reach)
	if i >= len(fields) {
		return reach
	}
	micros, err := strconv.ParseInt(fields[i], 10, 64)
	if err != nil {
		return reach
	}
	fields[i] = strconv.FormatInt(change(micros), 10)
	return strings.Join(fields, " ")
}

// learn stores what a reply says about the limit. Replies may come out of order: within an epoch the
// highest version counts. It reports whether another process has brought a newer plan, which the limit now has, and whether
// the state has begun anew.
func (l *Limit) learn(h *head, asked string, micros int64, c *Call, arrived time.Time) (follows, anew bool) {
	if h.version == 0 {
		if errors.Is(h.problem, ErrClock) {
			l.mu.Lock()
			l.off, l.stepped = time.UnixMicro(micros).Sub(arrived.Round(0)), arrived
			l.mu.Unlock()
		}
		if other, is := errors.AsType[*otherPlan](h.problem); is {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.follow(other.plan), false
		}
		return false, false
	}
	text, plan, planned := strings.Cut(strings.TrimPrefix(h.text, "~"), "@")
	stop, stops := strings.CutPrefix(plan, "stop ")
	if text == "" {
		text = asked
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	follows = planned && !stops && l.follow(plan)
	if c.reads && !l.heard.IsZero() {
		if stepped := micros + c.Way.Microseconds() - l.clock(arrived); max(stepped, -stepped) > second {
			return follows, false // the next use must show by how much Redis's clock has stepped since the last one
		}
	}
	if epochOf(text) == epochOf(l.known) && h.version <= l.version || !strings.Contains(text, " "+l.Kind+" ") { // or it is of before a plan of another kind
		return follows, false
	}
	if text != l.known {
		anew = l.known != "" && epochOf(text) != epochOf(l.known)
		l.known, l.inForce = text, termsOf(text, l.inForce)
	}
	if was := l.stopped.Load(); stops || was != nil {
		is := StoppedOf(stop)
		if l.stopped.Store(is); is == nil && was != nil {
			l.served = arrived
		}
	}
	l.version, l.reach, l.calm = h.version, h.reach, !strings.HasPrefix(h.text, "~")
	l.heard, l.micros = arrived, micros+c.Way.Microseconds()
	return follows, anew
}

func epochOf(text string) string {
	epoch, _, _ := strings.Cut(text, " ")
	return epoch
}
