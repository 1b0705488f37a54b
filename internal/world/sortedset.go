package world

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// doSorted runs a command of a sorted set.
func (v *value) doSorted(a []string) any {
	switch a[0] {
	case "ZCARD":
		return int64(len(v.sorted))
	case "ZSCORE":
		if score, ok := v.scores[a[2]]; ok {
			return number(score)
		}
		return nil
	case "ZMSCORE":
		reply := make([]any, len(a)-2)
		for i, name := range a[2:] {
			if score, ok := v.scores[name]; ok {
				reply[i] = number(score)
			}
		}
		return reply
	case "ZADD":
		return v.zadd(a[2:])
	case "ZREM":
		n := int64(0)
		for _, name := range a[2:] {
			n += count(v.remove(name))
		}
		return n
	case "ZREMRANGEBYRANK":
		from, to := v.ranks(a[2], a[3])
		for _, m := range v.sorted[from:to] {
			delete(v.scores, m.name)
		}
		v.sorted = slices.Delete(v.sorted, from, to)
		return int64(to - from)
	case "ZRANGE":
		from, to := v.ranks(a[2], a[3])
		return members(v.sorted[from:to], len(a) > 4)
	case "ZREVRANGE":
		reversed := slices.Clone(v.sorted)
		slices.Reverse(reversed)
		from, to := v.ranks(a[2], a[3])
		return members(reversed[from:to], len(a) > 4)
	case "ZCOUNT":
		from, to := v.between(a[2], a[3])
		return int64(to - from)
	case "ZRANGEBYSCORE":
		from, to := v.between(a[2], a[3])
		found, scores := v.sorted[from:to], false
		for i := 4; i < len(a); i++ {
			switch a[i] {
			case "WITHSCORES":
				scores = true
			case "LIMIT": // the scripts begin with the first one
				n, _ := strconv.Atoi(a[i+2])
				found = found[:min(len(found), n)]
				i += 2
			}
		}
		return members(found, scores)
	}
	return refusal("ERR unknown command " + a[0])
}

func (v *value) zadd(a []string) any {
	added, onlyOld, onlyNew := int64(0), false, false
	for ; a[0] == "XX" || a[0] == "NX"; a = a[1:] {
		onlyOld, onlyNew = a[0] == "XX", a[0] == "NX"
	}
	for ; len(a) > 1; a = a[2:] {
		score, err := strconv.ParseFloat(a[0], 64)
		if err != nil || math.IsNaN(score) {
			return refusal("ERR value is not a valid float")
		}
		_, there := v.scores[a[1]]
		if there && onlyNew || !there && onlyOld {
			continue
		}
		v.add(a[1], score)
		added += count(!there)
	}
	return added
}

// ranks turns the ranks of a command into those of a slice.
func (v *value) ranks(first, last string) (from, to int) {
	n := len(v.sorted)
	from, _ = strconv.Atoi(first)
	to, _ = strconv.Atoi(last)
	if from < 0 {
		from = max(0, from+n)
	}
	if to < 0 {
		to += n
	}
	to = min(to+1, n)
	return min(from, max(to, 0)), max(to, 0)
}

// between are the ranks of the members between two scores.
func (v *value) between(least, most string) (from, to int) {
	low, lowOpen := bound(least)
	high, highOpen := bound(most)
	at := func(score float64, behind bool) int {
		at, _ := slices.BinarySearchFunc(v.sorted, score, func(m scored, score float64) int {
			if m.score < score || behind && m.score == score {
				return -1
			}
			return 1
		})
		return at
	}
	from, to = at(low, lowOpen), at(high, !highOpen)
	return from, max(from, to)
}

// bound reads a bound of scores; it is open if it is not part of the range.
func bound(text string) (score float64, open bool) {
	text, open = strings.CutPrefix(text, "(")
	score, _ = strconv.ParseFloat(text, 64)
	return score, open
}

func members(all []scored, scores bool) any {
	reply := make([]any, 0, 2*len(all))
	for _, m := range all {
		reply = append(reply, m.name)
		if scores {
			reply = append(reply, number(m.score))
		}
	}
	return reply
}
