package smallredis

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Refusal is an error that a command replies.
type Refusal string

// Error is the text of the reply.
func (r Refusal) Error() string { return string(r) }

// RedisError marks it as a reply of the server.
func (Refusal) RedisError() {}

const (
	wrongType = Refusal("WRONGTYPE Operation against a key holding the wrong kind of value")
	oom       = Refusal("OOM command not allowed when used memory > 'maxmemory'.")
	notNumber = Refusal("ERR value is not a number")
)

// writes are the commands that write.
var writes = []string{"HSET", "HDEL", "ZADD", "ZREM", "ZREMRANGEBYRANK", "UNLINK", "DEL", "PEXPIRE"}

// Do runs a command. A reply is nil, an int64, a string, a []any or a Refusal.
func (r *Redis) Do(a []string) any {
	r.Commands++
	if r.Full && !r.wrote && (a[0] == "HSET" || a[0] == "ZADD") {
		return oom
	}
	r.wrote = r.wrote || slices.Contains(writes, a[0])
	switch a[0] {
	case "TIME":
		return []any{strconv.FormatInt(r.Now/1e6, 10), strconv.FormatInt(r.Now%1e6, 10)}
	case "PUBLISH":
		if r.Publish != nil {
			r.Publish(a[1], a[2])
		}
		return int64(0)
	case "INFO":
		return "run_id:" + r.Run + "\r\nmaxmemory:0\r\n"
	case "UNLINK", "DEL":
		before := len(r.Data)
		for _, name := range a[1:] {
			r.Data = r.Data.Without(name)
		}
		return int64(before - len(r.Data))
	}
	k, hash := r.Data.Find(a[1]), a[0][0] == 'H'
	switch {
	case a[0] == "EXISTS":
		return count(k != nil)
	case a[0] == "PEXPIRE":
		if k != nil {
			millis, err := strconv.ParseInt(a[2], 10, 64)
			if err != nil {
				return notNumber
			}
			next := *k
			next.Ends = r.Now + 1000*millis
			r.Data = r.Data.with(&next)
		}
		return count(k != nil)
	case k == nil:
		k = &Key{Name: a[1], Hash: hash}
	case k.Hash != hash:
		return wrongType
	}
	if slices.Contains(writes, a[0]) {
		k = k.copied()
		defer func() { r.Data = r.Data.with(k) }()
	}
	if hash {
		return k.doHash(a[0], a[2:])
	}
	return k.doSet(a[0], a[2:])
}

func (k *Key) doHash(command string, a []string) any {
	switch command {
	case "HMGET":
		values := make([]any, len(a))
		for n, field := range a {
			if i := k.Get(field); i != nil {
				values[n] = i.Value
			}
		}
		return values
	case "HGETALL":
		all := make([]any, 0, 2*len(k.Items))
		for _, i := range k.Items {
			all = append(all, i.Member, i.Value)
		}
		return all
	case "HSET":
		before := len(k.Items)
		for n := 0; n+1 < len(a); n += 2 {
			k.put(Item{Member: a[n], Value: a[n+1]})
		}
		return int64(len(k.Items) - before)
	case "HDEL":
		return k.remove(a)
	}
	return Refusal("ERR unknown command " + command)
}

func (k *Key) doSet(command string, a []string) any {
	switch command {
	case "ZCARD":
		return int64(len(k.Items))
	case "ZSCORE", "ZMSCORE":
		scores := make([]any, len(a))
		for n, member := range a {
			if i := k.Get(member); i != nil {
				scores[n] = Text(i.Score)
			}
		}
		if command == "ZSCORE" {
			return scores[0]
		}
		return scores
	case "ZADD":
		return k.add(a)
	case "ZREM":
		return k.remove(a)
	case "ZREMRANGEBYRANK":
		from, to := ranks(len(k.Items), a)
		k.Items = slices.Delete(k.Items, from, to)
		return int64(to - from)
	case "ZREVRANGE":
		items := slices.Clone(k.Items)
		slices.Reverse(items)
		from, to := ranks(len(items), a)
		return listed(items[from:to], a[2:])
	case "ZRANGE":
		from, to := ranks(len(k.Items), a)
		return listed(k.Items[from:to], a[2:])
	case "ZRANGEBYSCORE":
		return listed(k.scored(a), a[2:])
	case "ZCOUNT":
		return int64(len(k.scored(a)))
	}
	return Refusal("ERR unknown command " + command)
}

func (k *Key) add(a []string) any {
	only := ""
	if a[0] == "NX" || a[0] == "XX" {
		only, a = a[0], a[1:]
	}
	before := len(k.Items)
	for n := 0; n+1 < len(a); n += 2 {
		score, err := strconv.ParseFloat(a[n], 64)
		if err != nil || math.IsNaN(score) {
			return notNumber
		}
		if there := k.Get(a[n+1]) != nil; only == "" || there == (only == "XX") {
			k.put(Item{Member: a[n+1], Score: score})
		}
	}
	return int64(len(k.Items) - before)
}

// ranks returns the range of items that a command names. A rank below 0 counts from the end.
func ranks(n int, a []string) (from, to int) {
	from, _ = strconv.Atoi(a[0])
	to, _ = strconv.Atoi(a[1])
	if from < 0 {
		from = max(0, from+n)
	}
	if to < 0 {
		to += n
	}
	from, to = min(from, n), min(to+1, n)
	return from, max(from, to)
}

// scored returns the items with scores between two bounds.
func (k *Key) scored(a []string) []Item {
	at := func(bound string, low bool) int {
		text, open := strings.CutPrefix(bound, "(")
		score, _ := strconv.ParseFloat(text, 64)
		at, _ := slices.BinarySearchFunc(k.Items, score, func(i Item, score float64) int {
			if i.Score < score || i.Score == score && open == low {
				return -1
			}
			return 1
		})
		return at
	}
	from := at(a[0], true)
	return k.Items[from:max(from, at(a[1], false))]
}

// listed makes a reply with members, and with their scores if the options ask for them.
func listed(items []Item, options []string) any {
	if i := slices.Index(options, "LIMIT"); i >= 0 { // the scripts always begin with the first item
		n, _ := strconv.Atoi(options[i+2])
		items = items[:min(len(items), n)]
	}
	list, scores := make([]any, 0, 2*len(items)), slices.ContainsFunc(options, func(o string) bool { return strings.EqualFold(o, "WITHSCORES") })
	for _, i := range items {
		list = append(list, i.Member)
		if scores {
			list = append(list, Text(i.Score))
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

// Text writes a score as Redis does.
func Text(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e17 {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'g', 17, 64)
}
