package reserve

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/outage"
)

// guest is a call of a Joint: it stands in no queue of this process, as it waits in several
// lines.
type guest struct {
	joint    *Joint
	id       string
	costs    []int64
	deadline time.Time     // zero: none
	woken    chan struct{} // holds one when a line has moved

	mu      sync.Mutex
	asked   bool // Redis may know of it
	settles bool // its costs are settled later
	seen    jointTurn
}

// jointTurn is what a guest knows of its turn.
type jointTurn struct {
	ticket             // only its moments
	micros    int64    // the turn in Redis's time; 0: Redis was away
	numbers   []ticket // in each line; without a number where it has none
	holder    *Limiter
	unlimited bool // it was let through while Redis is away
}

func newGuest(j *Joint, costs []int64) *guest {
	return &guest{joint: j, id: j.limits[0].core.newID(), costs: costs, woken: make(chan struct{}, 1)}
}

func (g *guest) view() jointTurn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

func (g *guest) tell() {
	select {
	case g.woken <- struct{}{}:
	default:
	}
}

// lead is the limiter whose connection the calls use; all have the same.
func (j *Joint) lead() *core { return j.limits[0].core }

func (j *Joint) bound() time.Duration {
	bound := j.lead().cfg.InlineBound
	for _, l := range j.limits {
		bound = min(bound, l.core.cfg.InlineBound)
	}
	return bound
}

// enter returns the lines of the call, which stay until leave.
func (j *Joint) enter() (lines []*line, leave func(), err error) {
	leave = func() {
		for _, l := range lines {
			l.core.leave(l)
		}
	}
	for _, l := range j.limits {
		line, err := l.core.enter(l.key)
		if err != nil {
			leave()
			return nil, nil, err
		}
		lines = append(lines, line)
	}
	return lines, leave, nil
}

// revisit is enter for giving back, after Close, too.
func (j *Joint) revisit() (lines []*line, leave func()) {
	var leaves []func()
	for _, l := range j.limits {
		line, leave := l.core.revisit(l.key)
		lines, leaves = append(lines, line), append(leaves, leave)
	}
	return lines, func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// isClosing reports whether one of the limits is closed.
func (j *Joint) isClosing() bool {
	return slices.ContainsFunc(j.limits, func(l *Limiter) bool { return l.core.isClosing() })
}

// untilClosed returns a context that ends with the caller's, and when one of the limits is
// closed. Whoever asked under it says what ended it by closed.
func (j *Joint) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stops := make([]func() bool, len(j.limits))
	for i, l := range j.limits {
		stops[i] = context.AfterFunc(l.core.life, cancel)
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// closed is the error of a call that failed under untilClosed; ctx is the caller's.
func (j *Joint) closed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && j.isClosing() {
		return ErrClosed
	}
	return err
}

// invite lets the guest hear of lines that move, until the result is called.
func (g *guest) invite(lines []*line) func() {
	for _, l := range lines {
		l.mu.Lock()
		if l.guests == nil {
			l.guests = make(map[*guest]struct{})
		}
		l.guests[g] = struct{}{}
		l.mu.Unlock()
		if l.core.cfg.Limit.kind == KindPaced {
			l.core.listen()
		}
	}
	return func() {
		for _, l := range lines {
			l.mu.Lock()
			delete(l.guests, g)
			l.mu.Unlock()
		}
	}
}

// wait returns when the turn has come.
func (g *guest) wait(ctx context.Context, lines []*line) error {
	open, stop := g.joint.untilClosed(ctx)
	defer stop()
	return g.joint.closed(ctx, g.await(open, lines))
}

func (g *guest) await(ctx context.Context, lines []*line) (err error) {
	defer g.invite(lines)()
	for known := g.isKnown(); ; {
		if !known {
			if err := g.ask(ctx, lines); err != nil {
				return err
			}
		}
		t := g.view()
		look := t.due
		if !t.final { // its wait is longer than the bound
			look = look.Add(-g.joint.bound() / 2)
		}
		timer := time.NewTimer(time.Until(look))
		select {
		case <-timer.C:
			if now := time.Now(); t.final && !t.overslept(now) {
				g.observe(&t, now)
				return nil
			}
			known = false
		case <-g.woken:
			known = g.follow(lines)
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
		if err != nil {
			return err
		}
	}
}

// isKnown reports whether Redis was asked, and what it said holds still.
func (g *guest) isKnown() bool {
	t, now := g.view(), time.Now()
	if t.final {
		return !t.overslept(now)
	}
	return t.due.After(now)
}

// follow gives the call the turn that its numbers have since a line moved, and reports
// whether that is known: if not, it has to ask. A turn that is fixed comes no earlier.
func (g *guest) follow(lines []*line) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen.unlimited {
		return true
	}
	now, latest := time.Now(), time.Time{}
	for i, l := range lines {
		t := &g.seen.numbers[i]
		if t.number == 0 {
			continue
		}
		l.mu.Lock()
		l.where.adjust(t, now)
		known := t.epoch == l.where.epoch && t.final == g.seen.final
		l.mu.Unlock()
		if !known {
			return false
		}
		if t.due.After(latest) {
			latest = t.due
		}
	}
	if later := latest.Sub(g.seen.due); g.seen.final && later > 0 {
		if later > g.seen.slack { // too late for its permits of another limit
			return false
		}
		g.seen.due, g.seen.slack = latest, g.seen.slack-later
	}
	if !g.seen.final && !latest.IsZero() && (latest.After(g.seen.due) || g.seen.holder == nil || g.seen.holder.paced()) {
		g.seen.due = latest
	}
	return true
}

// stand asks for the turn once.
func (g *guest) stand(ctx context.Context) error {
	lines, leave, err := g.joint.enter()
	if err != nil {
		return err
	}
	defer leave()
	open, stop := g.joint.untilClosed(ctx)
	defer stop()
	if err = g.joint.closed(ctx, g.ask(open, lines)); err != nil {
		g.leaveSoon(lines)
	}
	return err
}

// ask asks Redis for the turn, or the policy while Redis is away. The context is one that
// ends when a limit is closed.
func (g *guest) ask(ctx context.Context, lines []*line) error {
	c := g.joint.lead()
	for {
		err := g.trip(ctx, lines)
		switch {
		case err == nil, !fault.Away(err), c.gate.Hopeless(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		switch c.cfg.Outage.Policy {
		case PolicyWait:
			c.gate.Wait(ctx.Done())
		case PolicyLocal, PolicyOpen:
			return g.without(lines)
		default:
			return err
		}
	}
}

// trip asks Redis.
func (g *guest) trip(ctx context.Context, lines []*line) error {
	c := g.joint.lead()
	for _, l := range lines {
		if !c.gate.Open() && !l.core.gate.Open() && l.core.cfg.Limit.kind == KindPaced && l.isAbsent() {
			l.goOn(ctx) // what was spent meanwhile is charged
		}
		l.allBack(ctx, c.gate)
	}
	g.mu.Lock()
	g.asked = true
	g.mu.Unlock()
	return c.do(ctx, func() error { return g.turn(ctx, lines) })
}

func (l *line) isAbsent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory.absent != nil
}

// without lets the call through while Redis is away, when the shares of all limits allow
// it.
func (g *guest) without(lines []*line) error {
	now := time.Now()
	at := now
	var live int64
	for _, l := range lines {
		l.mu.Lock()
		live = max(live, l.memory.live)
		l.mu.Unlock()
	}
	for i, l := range lines {
		l.mu.Lock()
		if t := l.shareAt(now, g.costs[i], live); t.After(at) {
			at = t
		}
		l.mu.Unlock()
	}
	if !g.deadline.IsZero() && at.After(g.deadline) {
		return miss(at.Sub(now), g.deadline)
	}
	for i, l := range lines {
		l.mu.Lock()
		l.spendShare(now, g.costs[i])
		l.mu.Unlock()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = jointTurn{ticket: ticket{due: at, given: now, slack: century, final: true}, unlimited: true}
	return nil
}

// shareAt is when this process's share has so many permits. Of a quota, or of a window that
// rolls, it is a share of what was left when Redis was last heard, at once, and of the rate
// after that. The line must be locked.
func (l *line) shareAt(now time.Time, cost, live int64) time.Time {
	if l.core.cfg.Outage.Policy != PolicyLocal {
		return now
	}
	if l.core.cfg.Limit.kind == KindPaced {
		return l.absent(now).at(now, cost)
	}
	if l.alone == nil {
		part := l.core.cfg.Outage.Share
		if live > 0 {
			part = l.core.cfg.Outage.Safety / float64(live)
		}
		share, left := l.core.terms().rate()*part, int(float64(l.left(now))*part)
		l.alone = outage.NewShare(share, max(1, left), now.Add(-time.Duration(float64(left)/share*float64(time.Second))))
	}
	return l.alone.At(now, cost)
}

func (l *line) spendShare(now time.Time, cost int64) {
	switch {
	case l.core.cfg.Limit.kind == KindPaced:
		l.absent(now).spend(now, cost)
	case l.alone != nil:
		l.alone.Take(now, cost)
	}
}

// leave gives back what the call has.
func (g *guest) leave(ctx context.Context) error {
	if !g.wasAsked() {
		return nil
	}
	lines, leave := g.joint.revisit()
	defer leave()
	return g.joint.lead().do(ctx, func() error { return g.giveUp(ctx, lines) })
}

func (g *guest) wasAsked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// leaveSoon does so in the background, for a caller who does not wait any more. The lines
// are those that the caller entered; Close waits until they are left. While a limit closes,
// one attempt is made.
func (g *guest) leaveSoon(lines []*line) {
	if !g.wasAsked() {
		return
	}
	left := leave(lines)
	go func() {
		defer left()
		ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
		defer cancel()
		c := g.joint.lead()
		err := c.do(ctx, func() error {
			err := g.giveUp(ctx, lines)
			if err != nil && g.joint.isClosing() {
				cancel()
			}
			return err
		})
		if err != nil {
			c.lost.Do(func() {
				c.cfg.Logger.Warn("fleetpace: a call could not give back what it had; that lapses",
					"limit", g.joint.String(), "error", err)
			})
		}
	}()
}

// leavePatience is for how long a call that was given up tries to say so.
const leavePatience = 5 * time.Second

func (j *Joint) allow(ctx context.Context, costs []int) (bool, error) {
	r, err := j.reserve(ctx, costs)
	if err != nil {
		return false, err
	}
	g := r.call
	g.deadline = time.Now()
	lines, leave, err := j.enter()
	if err != nil {
		return false, err
	}
	defer leave()
	open, stop := j.untilClosed(ctx)
	defer stop()
	err = j.closed(ctx, g.ask(open, lines))
	switch {
	case errors.Is(err, ErrWouldMissDeadline):
		return false, nil
	case err != nil:
		g.leaveSoon(lines)
		return false, err
	}
	t, now := g.view(), time.Now()
	if t.overslept(now) { // the reply came too late to use it
		g.leaveSoon(lines)
		return false, nil
	}
	g.observe(&t, now)
	return true, nil
}

// settle tells what the call used.
func (g *guest) settle(ctx context.Context, costs []int) error {
	if g.view().micros == 0 {
		return nil
	}
	lines, leave := g.joint.revisit()
	defer leave()
	c := g.joint.lead()
	if !c.gate.Pass() {
		return c.gate.Shut()
	}
	err := g.tellCosts(ctx, lines, costs)
	c.gate.Record(ctx, err)
	return err
}
