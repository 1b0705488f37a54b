package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

var (
	errClosed = errors.New("closed")
	errLate   = errors.New("the turn comes after the deadline")
	errLost   = fmt.Errorf("%w: lost", fault.ErrUnavailable)
)

// play is an engine with a Redis that is played: one paced limit, and nobody else. There is no clock:
// time passes when the test says so.
type play struct {
	*testing.T
	*Engine
	now   time.Time
	limit *wire.Limit
	sent  []*Batch // batches that Redis has not answered yet
	woken []*Call
	told  []Event
	next  time.Time

	free time.Time // of the limit that is played
	asks int
}

const interval = 50 * time.Millisecond

func newPlay(t *testing.T, away Away) *play {
	name := &wire.Name{Life: []string{"life", "beats"}, Keys: []string{"limits", "reports"}, Kind: "p", Pace: 20, Limit: "20/s"}
	p := &play{T: t, now: time.Unix(1_000_000, 0), limit: wire.NewLimit(wire.Terms{Kind: "p", A: 50_000, B: 1}, []string{"k", "k1", "k2", "k3", "k4", "k5"}, name)}
	p.Engine = New(Config{
		Process: "me", Channel: "news", Dead: 3 * time.Second, Away: away, Failures: 3, Probe: 500 * time.Millisecond,
		Share:  func(*wire.Limit) (float64, int) { return 10, 1 },
		Random: func() float64 { return 0.5 },
		Errors: Errors{Closed: errClosed, Away: errLost, Missed: func(time.Time, time.Time, int) error { return errLate }},
	})
	return p
}

// step lets the engine say what is ready, and checks its invariants.
func (p *play) step() {
	p.Helper()
	var r Ready
	p.Ready(p.now, &r)
	p.sent, p.woken, p.told = append(p.sent, r.Send...), append(p.woken, r.Wake...), append(p.told, r.Tell...)
	p.next = r.Next
	require.NoError(p, p.check(p.now))
}

// pass lets a time pass, and does what is due meanwhile.
func (p *play) pass(d time.Duration) {
	p.Helper()
	end := p.now.Add(d)
	for !p.next.IsZero() && p.next.Before(end) {
		p.now = later(p.now, p.next)
		p.step()
	}
	p.now = end
	p.step()
}

// call lets a call join.
func (p *play) call(deadline time.Duration, held bool) *Call {
	p.Helper()
	c := NewCall(Need{Part: Part{p.limit, 1}})
	if c.Held = held; deadline > 0 {
		c.Deadline = p.now.Add(deadline)
	}
	p.Join(p.now, c)
	p.step()
	return c
}

// take takes the first batch of a script that was sent; nil: there is none.
func (p *play) take(s Script) *Batch {
	i := slices.IndexFunc(p.sent, func(b *Batch) bool { return b.Script == s })
	if i < 0 {
		return nil
	}
	b := p.sent[i]
	p.sent = slices.Delete(p.sent, i, i+1)
	return b
}

// reply answers a batch.
func (p *play) reply(b *Batch) {
	p.Helper()
	r := Result{Sent: b.Call.Now, Arrived: p.now, Reply: wire.Reply{Micros: p.now.UnixMicro()}}
	switch b.Script {
	case Ask:
		p.asks++
		for _, item := range b.Items {
			r.Answers = append(r.Answers, p.answers(&item, b.Call.Horizon))
		}
	case Leave:
		r.Counts = make([]int64, len(b.Left))
	case Beat:
		r.Pulse = wire.Pulse{Micros: p.now.UnixMicro(), Known: p.known, Run: "run"}
		for _, told := range b.Heartbeat.Names {
			told.Name.Alive.Store(1)
			r.Pulse.Names = append(r.Pulse.Names, wire.Ruling{Limit: told.Name.Limit, Kind: told.Name.Kind})
		}
	case Holders:
		r.Held = make([]wire.HeldBy, len(b.Logs))
	}
	p.Reply(p.now, b, &r)
	p.done(b)
}

// lose lets a batch fail.
func (p *play) lose(b *Batch) {
	p.Helper()
	p.Failed(p.now, b, errLost)
	p.done(b)
}

func (p *play) done(b *Batch) {
	p.Helper()
	if b.over {
		p.Free(b)
	}
	p.step()
}

// answers gives turns within the horizon, and places behind each other beyond it.
func (p *play) answers(item *wire.Item, horizon time.Duration) wire.Answers {
	var each []wire.Answer
	behind := time.Duration(0)
	for k := range item.Count {
		due := later(p.now, p.free.Add(interval+behind))
		wait := due.Sub(p.now)
		tags := []int64{p.now.UnixMicro() + int64(k)}
		if tag := item.Parts[0].Tag; tag != 0 {
			tags[0] = tag
		}
		switch {
		case wait <= horizon && behind == 0:
			p.free = due
			each = append(each, wire.Answer{Turn: true, Wait: wait, Until: wait, Tags: tags})
		case item.Now:
			each = append(each, wire.Answer{Wait: wait})
		case !item.Latest.IsZero() && due.After(item.Latest):
			return wire.AnswersOf(append(each, wire.Answer{TooLate: true, Wait: wait})...)
		default:
			behind += interval
			each = append(each, wire.Answer{Wait: wait, Tags: tags})
		}
	}
	return wire.AnswersOf(each...)
}

// replyAll answers all batches, until no more are sent.
func (p *play) replyAll() {
	p.Helper()
	for len(p.sent) > 0 {
		b := p.sent[0]
		p.sent = p.sent[1:]
		p.reply(b)
	}
}

func TestOneCallHasItsTurn(t *testing.T) {
	p := newPlay(t, AwayLocal)
	c := p.call(0, false)
	beat := p.take(Beat)
	require.NotNil(t, beat, "the process says that it lives")
	require.Nil(t, p.take(Ask), "it does not know yet how far away Redis is")
	p.reply(p.take(Inspect))
	ask := p.take(Ask)
	p.reply(ask)
	require.Empty(t, p.woken, "Redis has not said yet which kind of limit is in force")
	require.Equal(t, Waiting, c.state)
	p.reply(beat)
	require.Equal(t, Used, c.state)
	require.Equal(t, []*Call{c}, p.woken)
}

// A caller waits for a call that it holds, and wakes late. Meanwhile a heartbeat has ended the call, because its turn
// had expired. The caller does not wait for nothing: the call asks again.
func TestALateCallerDoesNotWaitForNothing(t *testing.T) {
	for kind, limit := range map[string]wire.Terms{"paced": {Kind: "p", A: 50_000, B: 1}, "slots": {Kind: "s", A: 5, B: 1}} {
		t.Run(kind, func(t *testing.T) {
			p := newPlay(t, AwayLocal)
			p.limit = wire.NewLimit(limit, p.limit.Keys, p.limit.Name)
			p.limit.Name.Kind = limit.Kind
			c := p.call(0, true)
			p.replyAll()
			require.Equal(t, Given, c.state)
			require.NoError(t, p.Resume(p.now, c))
			for end := p.now.Add(2 * kept); c.state == Given && p.now.Before(end); p.replyAll() {
				p.pass(time.Second)
			}
			require.Equal(t, Expired, c.state)

			left, err := p.Look(p.now, c, 0)
			require.NoError(t, err)
			require.Negative(t, left)
			p.step()
			p.woken = nil
			p.replyAll()
			require.Contains(t, p.woken, c)
			p.pass(c.turn.Due.Sub(p.now))
			left, err = p.Look(p.now, c, 0)
			require.NoError(t, err)
			require.Zero(t, left)
		})
	}
}

func TestALostReplyIsAskedForUnderTheSameSerial(t *testing.T) {
	p := newPlay(t, AwayWait)
	p.call(0, false)
	p.reply(p.take(Beat))
	p.reply(p.take(Inspect))
	first := p.take(Ask)
	serial, number := first.Call.Serial, first.Items[0].Number
	p.lose(first)
	require.Nil(t, p.take(Ask))
	p.pass(time.Second)
	require.Nil(t, p.take(Ask), "another server may answer: a heartbeat goes first")
	p.reply(p.take(Beat))
	again := p.take(Ask)
	require.Equal(t, serial, again.Call.Serial)
	require.Equal(t, number, again.Items[0].Number)
	require.Equal(t, []string{again.Call.Caller.Ask()}, again.Call.Back, "what the first one was given goes back")
}

func TestOutageAndBack(t *testing.T) {
	p := newPlay(t, AwayLocal)
	c := p.call(0, false)
	p.replyAll()
	require.Equal(t, Used, c.state)
	c = p.call(0, false)
	for !p.breaker.isOpen() {
		if b := p.take(Ask); b != nil {
			p.lose(b)
		} else if b := p.take(Beat); b != nil {
			p.lose(b)
		} else {
			p.pass(250 * time.Millisecond)
		}
	}
	p.pass(400 * time.Millisecond)
	require.Equal(t, Used, c.state, "it had a turn of this process's share")
	require.Empty(t, c.turn.Process)
	p.pass(time.Second)
	spent := p.take(Settle)
	for ; spent == nil; spent = p.take(Settle) {
		p.reply(p.take(Beat))
	}
	require.Len(t, spent.Used, 1, "Redis is told of it")
	p.reply(spent)
	require.Nil(t, p.outage)
}

func TestADeadlineIsToldAtOnce(t *testing.T) {
	p := newPlay(t, AwayLocal)
	p.free = p.now.Add(5 * time.Second)
	p.call(0, false)
	p.replyAll()
	c := p.call(time.Second, false)
	p.pass(2 * together) // it waits for others a moment
	ask := p.take(Ask)
	require.WithinDuration(t, c.Deadline, ask.Items[0].Latest, slop, "Redis gives it no place")
	p.reply(ask)
	require.Equal(t, Failed, c.state)
	require.ErrorIs(t, c.err, errLate)
	asks := p.asks
	c = p.call(time.Second, false)
	require.ErrorIs(t, c.err, errLate, "the process remembers it")
	require.Equal(t, asks, p.asks)
}

// An answer of after the news is right, so its call does not ask once more.
func TestNewsOfBeforeAnAnswer(t *testing.T) {
	p := newPlay(t, AwayWait)
	p.free = p.now.Add(5 * time.Second)
	p.call(0, false)
	p.replyAll()
	p.pass(2 * together)
	p.replyAll()
	for _, later := range []time.Duration{time.Millisecond, 0} {
		p.News(p.now, fmt.Sprintf("news left %d k", p.now.UnixMicro()))
		p.step()
		ask := p.take(Ask)
		require.NotNil(t, ask)
		p.News(p.now, fmt.Sprintf("news left %d k", p.now.UnixMicro()))
		p.pass(later)
		p.reply(ask)
		p.step()
		require.Equal(t, later == 0, p.take(Ask) != nil)
	}
}

// A pause was heard of, and then Redis's clock stepped back: all that Redis gives seems to be of before the
// pause. A reply to what was asked after that is no old one.
func TestAPauseBeforeAStepBackOfTheClock(t *testing.T) {
	p := newPlay(t, AwayWait)
	p.call(0, false)
	p.replyAll()
	ahead := p.now.Add(10 * time.Second).UnixMicro()
	p.News(p.now, fmt.Sprintf("news until:%d,paused %d k", ahead+1000, ahead))
	p.step()
	p.pass(time.Second)
	c := p.call(0, false)
	p.reply(p.take(Ask))
	require.Equal(t, Used, c.state)
}

// Events come in any order: calls join and leave, replies come, are late or are lost, limits are paused
// and change, time passes. The invariants hold after each of them. When all of that ends, each call has its
// turn or its error, and the engine holds nothing.
func TestEventsInAnyOrder(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := newPlay(t, Away(r.IntN(4)))
			weights := make([]int, 12) // each history draws how often each event comes, and some never
			for i := range weights {
				weights[i] = r.IntN(4) * r.IntN(3)
			}
			weights[0], weights[1], weights[2] = 3, 4, 3
			var calls []*Call
			events := []func(){
				func() { calls = append(calls, p.call(0, r.IntN(3) == 0)) },
				func() {
					if len(p.sent) > 0 {
						i := r.IntN(len(p.sent))
						b := p.sent[i]
						p.sent = slices.Delete(p.sent, i, i+1)
						p.reply(b)
					}
				},
				func() { p.pass(time.Duration(r.ExpFloat64() * 0.1 * float64(time.Second))) },
				func() { calls = append(calls, p.call(time.Duration(r.IntN(3000)+1)*time.Millisecond, false)) },
				func() {
					if len(p.sent) > 0 {
						i := r.IntN(len(p.sent))
						b := p.sent[i]
						p.sent = slices.Delete(p.sent, i, i+1)
						p.lose(b)
					}
				},
				func() {
					if len(calls) > 0 {
						p.Leave(p.now, calls[r.IntN(len(calls))])
					}
				},
				func() { p.News(p.now, fmt.Sprintf("news left %d k", p.now.UnixMicro())) },
				func() {
					until := p.now.UnixMicro() + r.Int64N(500_000)
					p.News(p.now, fmt.Sprintf("news until:%d,paused %d k", until, p.now.UnixMicro()))
				},
				func() { p.News(p.now, fmt.Sprintf("news limit:%v:0 %d k", 0.5+r.Float64(), p.now.UnixMicro())) },
				func() { p.News(p.now, "news overdue:me 0 k") },
				func() { p.News(p.now, "dead other") },
				func() {
					for _, c := range calls {
						p.Use(p.now, c, 0)
					}
				},
			}
			sum := 0
			for _, w := range weights {
				sum += w
			}
			for range 300 {
				n := r.IntN(sum)
				for i, w := range weights {
					if n -= w; n < 0 {
						events[i]()
						break
					}
				}
				p.step()
			}
			for range 500 { // now Redis answers everything
				p.replyAll()
				for _, c := range calls {
					p.Use(p.now, c, 0)
				}
				p.pass(50 * time.Millisecond)
			}
			for i, c := range calls {
				require.True(t, c.over.Load(), "call %d is in state %d", i, c.state)
			}
			p.pass(time.Minute)
			p.replyAll()
			p.Close(p.now)
			p.step()
			p.replyAll()
			p.pass(time.Minute)
			require.Empty(t, p.lines)
			require.Zero(t, p.busy+p.Engine.sent+p.calls)
		})
	}
}
