package lua

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fleetpace/fleetpace/internal/model"
)

// The arguments and replies of the scripts, in the terms of the model.

func limitArgs(l model.Limit) []string {
	return []string{decimal(l.IntervalMicros), strconv.FormatInt(l.Burst, 10)}
}

func takeArgs(l model.Limit, bound, reach float64, requests []model.Request) []string {
	args := append(limitArgs(l), decimal(bound), decimal(reach))
	for _, r := range requests {
		keep := "0"
		if r.Keep {
			keep = "1"
		}
		args = append(args, strconv.FormatInt(r.Cost, 10), decimal(r.MaxWaitMicros), r.ID, keep)
	}
	return args
}

func claimArgs(l model.Limit, bound, reach float64, tickets []model.Ticket) []string {
	args := append(limitArgs(l), decimal(bound), decimal(reach))
	for _, t := range tickets {
		args = append(args, strconv.FormatInt(t.Cost, 10), t.ID)
	}
	return args
}

func cancelArgs(l model.Limit, tickets []model.Cancellation) []string {
	args := limitArgs(l)
	for _, c := range tickets {
		args = append(args, strconv.FormatInt(c.Cost, 10), c.ID, strconv.FormatInt(c.Epoch, 10), strconv.FormatInt(c.Number, 10))
	}
	return args
}

func forgetArgs(cost int64, id string) []string {
	return []string{strconv.FormatInt(cost, 10) + ":" + id}
}

// decimal writes a number so that it reads back as the same double.
func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func replyInts(r model.Reply) []int64 {
	list := []int64{r.Epoch, r.ReachMicros}
	for _, g := range r.Grants {
		list = append(list, int64(g.Status), g.Number, g.WaitMicros)
	}
	return list
}

func wantInts(want []int64) func(any) error {
	return func(reply any) error {
		got, err := ints(reply)
		if err != nil {
			return err
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("replied %v, the model %v", got, want)
		}
		return nil
	}
}

// pairs reads a reply of names and values.
func pairs(reply any) (map[string]any, error) {
	if err, ok := reply.(error); ok {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok || len(list)%2 != 0 {
		return nil, fmt.Errorf("reply %v is not a list of pairs", reply)
	}
	named := make(map[string]any)
	for i := 0; i < len(list); i += 2 {
		named[fmt.Sprint(list[i])] = list[i+1]
	}
	return named, nil
}

// state is what the keys hold.
type state struct {
	fields                 map[string]string
	waiting, free, claimed []model.Ticket
}

// parseState reads the reply to the driver's verb "state".
func parseState(reply any) (state, error) {
	if err, ok := reply.(error); ok {
		return state{}, err
	}
	lists := reply.([]any)
	s := state{fields: make(map[string]string)}
	hash := lists[0].([]any)
	for i := 0; i < len(hash); i += 2 {
		s.fields[hash[i].(string)] = hash[i+1].(string)
	}
	for k, into := range []*[]model.Ticket{&s.waiting, &s.free, &s.claimed} {
		list := lists[k+1].([]any)
		for i := 0; i < len(list); i += 2 {
			member, score := list[i].(string), list[i+1].(string)
			cost, id, _ := strings.Cut(member, ":")
			number, err := strconv.ParseFloat(score, 64)
			if err != nil {
				return state{}, err
			}
			n, err := strconv.ParseInt(cost, 10, 64)
			if err != nil {
				n, id = 0, member // not an entry of the scripts
			} else if k == 1 { // a free block's name is its number
				if id != strconv.FormatFloat(number, 'f', 0, 64) {
					return state{}, fmt.Errorf("free entry %q has the score %s", member, score)
				}
				id = ""
			}
			*into = append(*into, model.Ticket{Number: int64(number), Cost: n, ID: id})
		}
	}
	return s, nil
}
