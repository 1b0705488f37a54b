package lua

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fleetpace/fleetpace/internal/model"
)

// The arguments and replies of the scripts, in the terms of the model.

func limitArgs(l model.Limit) []string {
	return []string{decimal(l.IntervalMicros), strconv.FormatInt(l.Burst, 10)}
}

// headArgs are those that every call but inspect begins with.
func headArgs(l model.Limit, c model.Caller) []string {
	reach := decimal(c.ReachMicros)
	if c.LaterMicros > 0 {
		reach += "+" + decimal(c.LaterMicros)
	}
	return append(limitArgs(l), reach, strconv.FormatInt(c.Epoch, 10), strconv.FormatInt(c.SeenMicros, 10),
		decimal(c.ClockMicros), c.Member, strconv.FormatInt(c.Serial, 10))
}

func takeArgs(l model.Limit, c model.Caller, bound float64, requests []model.Request) []string {
	args := append(headArgs(l, c), decimal(bound))
	for _, r := range requests {
		keep := "0"
		if r.Keep {
			keep = "1"
		}
		args = append(args, strconv.FormatInt(r.Cost, 10), decimal(r.MaxWaitMicros), r.ID, keep)
	}
	return args
}

// quickArgs are those of a quick with one row per limit. They are asked for by one
// caller, and may be given extra permits for the same time, if any.
func quickArgs(l model.Limit, c model.Caller, rows ...model.Row) []string {
	args := append(limitArgs(l), decimal(c.ClockMicros), decimal(rows[0].LastingMicros))
	for _, r := range rows {
		known := ""
		if c.SeenMicros > 0 {
			known = fmt.Sprintf("%d %d ", c.SeenMicros, c.LastSerial)
		}
		args = append(args, fmt.Sprintf("%d %d", c.Epoch, c.Live), c.Member, known, strconv.FormatInt(c.Serial, 10),
			strconv.FormatInt(r.Permits, 10), decimal(r.SlackMicros))
		if rows[0].LastingMicros > 0 {
			args = append(args, strconv.FormatInt(r.Extra, 10))
		}
	}
	return args
}

func claimArgs(l model.Limit, c model.Caller, bound float64, tickets []model.Ticket) []string {
	args := append(headArgs(l, c), decimal(bound))
	for _, t := range tickets {
		args = append(args, strconv.FormatInt(t.Cost, 10), t.ID)
	}
	return args
}

func cancelArgs(l model.Limit, c model.Caller, tickets []model.Cancellation) []string {
	args := headArgs(l, c)
	for _, t := range tickets {
		args = append(args, strconv.FormatInt(t.Cost, 10), t.ID, strconv.FormatInt(t.Epoch, 10), strconv.FormatInt(t.Number, 10))
	}
	return args
}

func chargeArgs(l model.Limit, c model.Caller, what model.Charge) []string {
	return append(headArgs(l, c), strconv.FormatInt(what.Spent, 10), strconv.FormatInt(what.Least, 10),
		strconv.FormatInt(what.Idle, 10), decimal(what.AwayMicros), decimal(what.GraceMicros), strconv.FormatInt(what.Most, 10))
}

func pauseArgs(l model.Limit, c model.Caller, micros float64) []string {
	return append(headArgs(l, c), decimal(micros), "told so", "news")
}

func setArgs(l model.Limit, c model.Caller, to model.Limit, micros float64) []string {
	return append(headArgs(l, c), decimal(to.IntervalMicros), strconv.FormatInt(max(1, to.Burst), 10), decimal(micros), "news")
}

func resumeArgs(l model.Limit, c model.Caller) []string {
	return append(headArgs(l, c), "news")
}

func forgetArgs(cost int64, id string) []string {
	return []string{strconv.FormatInt(cost, 10) + ":" + id}
}

// decimal writes a number so that it reads back as the same double.
func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func replyInts(r model.Reply) []int64 {
	var plain int64
	if r.Plain {
		plain = 1
	}
	list := []int64{r.Epoch, r.SeenMicros, r.ReachMicros, r.Live, r.Idle, r.ResumeMicros, plain, r.PauseMicros, r.Gen, r.Final,
		int64(r.Limit.IntervalMicros), int64(math.Mod(r.Limit.IntervalMicros, 1) * 1e9), r.Limit.Burst}
	for _, g := range r.Grants {
		list = append(list, int64(g.Status), g.Number, g.WaitMicros)
	}
	return list
}

// parseReply reads the reply of take, claim or charge.
func parseReply(raw any) (model.Reply, error) {
	if stale(raw) {
		return model.Reply{Stale: true}, nil
	}
	list, err := ints(raw)
	if err != nil {
		return model.Reply{}, err
	}
	if len(list) < HeadLength || (len(list)-HeadLength)%3 != 0 {
		return model.Reply{}, fmt.Errorf("reply %v is not a head with grants", list)
	}
	r := model.Reply{
		Epoch: list[0], SeenMicros: list[1], ReachMicros: list[2],
		Live: list[3], Idle: list[4], ResumeMicros: list[5], Plain: list[6] == 1,
		PauseMicros: list[7], Gen: list[8], Final: list[9],
		Limit: model.Limit{IntervalMicros: float64(list[10]) + float64(list[11])/1e9, Burst: list[12]},
	}
	for g := list[HeadLength:]; len(g) > 0; g = g[3:] {
		r.Grants = append(r.Grants, model.Grant{Status: model.Status(g[0]), Number: g[1], WaitMicros: g[2]})
	}
	return r, nil
}

// givenInts is the reply of a quick for one limit.
func givenInts(g model.Given) []int64 {
	return []int64{g.SeenMicros, g.Before, g.DueMicros, g.Idle, g.Permits}
}

// parseGiven reads the reply of a quick.
func parseGiven(raw any, limits int) ([]model.Given, error) {
	list, err := ints(raw)
	if err != nil {
		return nil, err
	}
	if len(list) != 1+4*limits {
		return nil, fmt.Errorf("reply %v is not for %d limits", list, limits)
	}
	given := make([]model.Given, limits)
	for k := range given {
		of := list[1+4*k:]
		given[k] = model.Given{SeenMicros: list[0], Before: of[0], DueMicros: of[1], Idle: of[2], Permits: of[3]}
	}
	return given, nil
}

// stale reports whether a call was refused as an old copy.
func stale(raw any) bool {
	err, failed := raw.(error)
	return failed && strings.HasPrefix(err.Error(), "STALE ")
}

func wantStale(raw any) error {
	if !stale(raw) {
		return fmt.Errorf("replied %v, in the model the call is stale", raw)
	}
	return nil
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
