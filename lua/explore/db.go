package main

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// data is what a Redis holds. A key is never changed in place, so worlds share those that are alike.
type data []*key

// key is a hash, whose items have values, or a sorted set, whose items have scores and are in their
// order.
type key struct {
	name  string
	hash  bool
	items []item
	ends  int64 // the time of Redis at which it expires, in micros; 0: never
}

type item struct {
	member, value string
	score         float64
}

// find returns the key with a name, or nil.
func (d data) find(name string) *key {
	for _, k := range d {
		if k.name == name {
			return k
		}
	}
	return nil
}

// with returns the data with a key in place of the one of its name. A key without items is deleted.
func (d data) with(k *key) data {
	next := make(data, 0, len(d)+1)
	for _, old := range d {
		if old.name != k.name {
			next = append(next, old)
		}
	}
	if len(k.items) > 0 {
		next = append(next, k)
	}
	return next
}

// expire deletes the keys whose time has come, and returns their names.
func (d data) expire(now int64) (next data, names []string) {
	for _, k := range d {
		if k.ends > 0 && k.ends <= now {
			names = append(names, k.name)
			d = d.with(&key{name: k.name})
		}
	}
	return d, names
}

func (k *key) index(member string) int {
	return slices.IndexFunc(k.items, func(i item) bool { return i.member == member })
}

// put returns the key with an item more, or in place of the one of its member.
func (k *key) put(put item) *key {
	next := *k
	at := k.index(put.member)
	if k.hash && at >= 0 {
		next.items = slices.Clone(k.items)
		next.items[at] = put
		return &next
	}
	next.items = slices.DeleteFunc(slices.Clone(k.items), func(i item) bool { return i.member == put.member })
	at = len(next.items)
	if !k.hash {
		at, _ = slices.BinarySearchFunc(next.items, put, func(a, b item) int {
			return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.member, b.member))
		})
	}
	next.items = slices.Insert(next.items, at, put)
	return &next
}

// without returns the key less the items that are named, and how many those are.
func (k *key) without(members []string) (*key, int64) {
	next := *k
	next.items = slices.DeleteFunc(slices.Clone(k.items), func(i item) bool { return slices.Contains(members, i.member) })
	return &next, int64(len(k.items) - len(next.items))
}

// refusal is what Redis replies to a command that it refuses.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

const wrongType = refusal("WRONGTYPE Operation against a key holding the wrong kind of value")

// do runs a command of the scripts. Replies are int64, string, nil, []any and refusal.
func (s *server) do(a []string) any {
	switch a[0] {
	case "TIME":
		return []any{strconv.FormatInt(s.now/1e6, 10), strconv.FormatInt(s.now%1e6, 10)}
	case "PUBLISH":
		s.news = append(s.news, a[2])
		return int64(0)
	case "INFO":
		return "run_id:" + s.run + "\r\n"
	case "UNLINK", "DEL":
		n := len(s.data)
		for _, name := range a[1:] {
			s.data = s.data.with(&key{name: name})
		}
		return int64(n - len(s.data))
	}
	k, hash := s.data.find(a[1]), a[0][0] == 'H'
	switch {
	case a[0] == "EXISTS":
		return count(k != nil)
	case a[0] == "PEXPIRE":
		if k != nil {
			next := *k
			next.ends = s.now + 1000*int64(number(a[2]))
			s.data = s.data.with(&next)
		}
		return count(k != nil)
	case k == nil:
		k = &key{name: a[1], hash: hash}
	case k.hash != hash:
		return wrongType
	}
	if hash {
		return s.doHash(k, a[0], a[2:])
	}
	return s.doSet(k, a[0], a[2:])
}

func (s *server) doHash(k *key, command string, a []string) any {
	switch command {
	case "HMGET":
		values := make([]any, len(a))
		for n, field := range a {
			if i := k.index(field); i >= 0 {
				values[n] = k.items[i].value
			}
		}
		return values
	case "HGETALL":
		var all []any
		for _, i := range k.items {
			all = append(all, i.member, i.value)
		}
		return all
	case "HSET":
		before := len(k.items)
		for n := 0; n+1 < len(a); n += 2 {
			k = k.put(item{member: a[n], value: a[n+1]})
		}
		s.data = s.data.with(k)
		return int64(len(k.items) - before)
	case "HDEL":
		k, n := k.without(a)
		s.data = s.data.with(k)
		return n
	}
	panic("the explorer's Redis has no command " + command)
}

func (s *server) doSet(k *key, command string, a []string) any {
	switch command {
	case "ZCARD":
		return int64(len(k.items))
	case "ZSCORE", "ZMSCORE":
		scores := make([]any, len(a))
		for n, member := range a {
			if i := k.index(member); i >= 0 {
				scores[n] = text(k.items[i].score)
			}
		}
		if command == "ZSCORE" {
			return scores[0]
		}
		return scores
	case "ZADD":
		only := ""
		if a[0] == "NX" || a[0] == "XX" {
			only, a = a[0], a[1:]
		}
		before := len(k.items)
		for n := 0; n+1 < len(a); n += 2 {
			if there := k.index(a[n+1]) >= 0; only == "" || there == (only == "XX") {
				k = k.put(item{member: a[n+1], score: number(a[n])})
			}
		}
		s.data = s.data.with(k)
		return int64(len(k.items) - before)
	case "ZREM":
		k, n := k.without(a)
		s.data = s.data.with(k)
		return n
	case "ZREMRANGEBYRANK":
		gone := ranks(k.items, a)
		next := *k
		next.items = slices.DeleteFunc(slices.Clone(k.items), func(i item) bool { return slices.Contains(gone, i) })
		s.data = s.data.with(&next)
		return int64(len(gone))
	case "ZREVRANGE":
		items := slices.Clone(k.items)
		slices.Reverse(items)
		return listed(ranks(items, a), a[2:])
	case "ZRANGE":
		return listed(ranks(k.items, a), a[2:])
	case "ZRANGEBYSCORE":
		return listed(scored(k.items, a), a[2:])
	case "ZCOUNT":
		return int64(len(scored(k.items, a)))
	}
	panic("the explorer's Redis has no command " + command)
}

// ranks are the items from one rank to another one, which count from the end where they are below 0.
func ranks(items []item, a []string) []item {
	from, to := int(number(a[0])), int(number(a[1]))
	if from < 0 {
		from = max(0, from+len(items))
	}
	if to < 0 {
		to += len(items)
	}
	from, to = min(from, len(items)), min(to+1, len(items))
	return items[from:max(from, to)]
}

// scored are the items with scores from one bound to another one.
func scored(items []item, a []string) (in []item) {
	low, above := strings.CutPrefix(a[0], "(")
	high, below := strings.CutPrefix(a[1], "(")
	from, to := number(low), number(high)
	for _, i := range items {
		if (i.score > from || !above && i.score == from) && (i.score < to || !below && i.score == to) {
			in = append(in, i)
		}
	}
	return in
}

// listed is a reply with members, and their scores where the options want them.
func listed(items []item, options []string) any {
	if i := slices.Index(options, "LIMIT"); i >= 0 {
		items = items[:min(len(items), int(number(options[i+2])))]
	}
	list, scores := make([]any, 0, 2*len(items)), slices.Contains(options, "WITHSCORES")
	for _, i := range items {
		list = append(list, i.member)
		if scores {
			list = append(list, text(i.score))
		}
	}
	return list
}

func count(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func number(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("the explorer's Redis wants a number, got " + text)
	}
	return x
}

// text writes a number as Redis does.
func text(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e17 {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'g', 17, 64)
}
