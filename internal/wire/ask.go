package wire

import (
	"context"
	"math"
	"time"

	scripts "github.com/fleetpace/fleetpace/lua/queue"
)

// Item is one call that asks for its turn, or several that are alike.
type Item struct {
	Count   int   // more than one only if all are new
	Number  int64 // of the first of them; the next ones follow
	Settles bool  // what they really cost is told later
	Now     bool  // they do not wait: a turn that is due at once, or nothing
	Parts   []Part
}

// Part is what a call wants of one limit.
type Part struct {
	Limit int // of the call's
	Cost  int64
	Tag   int64 // 0: none
}

// Answer is the answer to one call of an item. All times count from when the reply arrives.
type Answer struct {
	Turn    bool
	Refused error         // or nil
	Wait    time.Duration // until the turn; of a place, a forecast
	Until   time.Duration // of a turn: may be used until then, may be below 0
	Tags    []int64       // of a call with a place; nil: none
	Records []int64       // of a call that settles; nil: none
}

// Ask makes the call, and hands each answer over: that of the kth call of the ith item. Of an
// item with many calls only the first may be answered; the others have to ask again.
func Ask(ctx context.Context, c *Call, items []Item, each func(i, k int, a Answer)) (Reply, error) {
	extra := make([]any, 0, 8*len(items))
	for _, item := range items {
		how := 0
		if item.Settles {
			how++
		}
		if item.Now {
			how += 2
		}
		extra = append(extra, item.Count, item.Number, how, len(item.Parts))
		for _, p := range item.Parts {
			extra = append(extra, p.Limit+1, p.Cost, tagText(p.Tag))
		}
	}
	reply, r, err := c.run(ctx, scripts.Ask, extra)
	if err != nil {
		return reply, err
	}
	for i := range items {
		r.answers(c, &items[i], func(k int, a Answer) { each(i, k, a) })
	}
	return reply, r.err
}

func tagText(tag int64) any {
	if tag == 0 {
		return ""
	}
	return tag
}

func (r *reader) answers(c *Call, item *Item, each func(int, Answer)) {
	if r.number() == 1 { // a run: the time until the last turn tells the others
		last, p := float64(r.number()), item.Parts[0]
		l := c.Limits[p.Limit]
		step := float64(p.Cost) * l.A
		for k := 0; k < item.Count && r.err == nil; k++ {
			due := last - float64(item.Count-1-k)*step
			each(k, Answer{Turn: true, Wait: micros(math.Ceil(max(0, due))), Until: micros(math.Floor(due + (l.B-float64(p.Cost))*l.A))})
		}
		return
	}
	answered := int(r.number())
	for k := 0; k < answered && r.err == nil; k++ {
		status, a := r.number(), Answer{}
		a.Wait = r.micros()
		switch status {
		case 0:
			r.number()
			a.Tags = r.numbers(len(item.Parts))
		case 1:
			a.Turn, a.Until = true, r.micros()
			if numbers := r.numbers(len(item.Parts)); item.Settles {
				a.Records = numbers
			} else {
				a.Tags = numbers
			}
		case 2:
			a.Refused = problemOf(r.text())
			r.numbers(len(item.Parts))
		default:
			r.fail("an answer is none of turn, place and refusal")
		}
		each(k, a)
	}
}

// numbers reads some; nil if the first one is not there.
func (r *reader) numbers(n int) []int64 {
	if len(r.values) < n {
		r.fail("the reply is too short")
		return nil
	}
	if r.values[0] == "" {
		r.values = r.values[n:]
		return nil
	}
	numbers := make([]int64, n)
	for i := range numbers {
		numbers[i] = r.number()
	}
	return numbers
}

func micros(x float64) time.Duration { return time.Duration(x) * time.Microsecond }
