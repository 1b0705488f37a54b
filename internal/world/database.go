package world

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// database is the keys of a played Redis, and the commands that the scripts use. It is not safe for
// concurrent use.
type database struct {
	now   time.Duration // Redis's time, since 1970
	run   int           // numbers the server
	full  bool          // commands that need memory are refused, unless the script has written before
	wrote bool          // the script has
	keys  map[string]*value

	commands int                           // that were run
	publish  func(channel, message string) // nil: nobody hears
}

// value is what a key holds: a hash or a sorted set.
type value struct {
	hash   map[string]string  // nil: it is a sorted set
	scores map[string]float64 // of the members of a sorted set
	sorted []scored           // the same, in order
	ends   time.Duration      // Redis's time at which it expires; 0: never
}

type scored struct {
	name  string
	score float64
}

func newDatabase() *database { return &database{keys: map[string]*value{}} }

// copy is what a replica or a file on disk keeps.
func (d *database) copy() map[string]*value {
	all := map[string]*value{}
	for key, v := range d.keys {
		c := &value{sorted: slices.Clone(v.sorted), ends: v.ends}
		if v.hash != nil {
			c.hash = map[string]string{}
			for field, text := range v.hash {
				c.hash[field] = text
			}
		} else {
			c.scores = map[string]float64{}
			for name, score := range v.scores {
				c.scores[name] = score
			}
		}
		all[key] = c
	}
	return all
}

// expire removes the keys whose time has come.
func (d *database) expire() {
	for key, v := range d.keys {
		if v.ends > 0 && v.ends <= d.now {
			delete(d.keys, key)
		}
	}
}

// refusal is an error that a command replies.
type refusal string

// Error is the text of the reply.
func (r refusal) Error() string { return string(r) }

// RedisError marks it as a reply of the server.
func (refusal) RedisError() {}

// writes are commands that write, besides UNLINK and PEXPIRE.
var writes = []string{"HSET", "HDEL", "ZADD", "ZREM", "ZREMRANGEBYRANK"}

const (
	wrongType = refusal("WRONGTYPE Operation against a key holding the wrong kind of value")
	oom       = refusal("OOM command not allowed when used memory > 'maxmemory'.")
)

// do runs a command. A reply is nil, an int64, a string, a []any or a refusal.
func (d *database) do(a []string) any {
	d.commands++
	switch a[0] {
	case "TIME":
		micros := d.now.Microseconds()
		return []any{strconv.FormatInt(micros/1e6, 10), strconv.FormatInt(micros%1e6, 10)}
	case "PUBLISH":
		if d.publish != nil {
			d.publish(a[1], a[2])
		}
		return int64(0)
	case "INFO":
		if len(a) > 1 && a[1] == "server" {
			return "# Server\r\nrun_id:" + runID(d.run) + "\r\n"
		}
		return "# Memory\r\nmaxmemory:0\r\n"
	case "UNLINK":
		d.wrote = true
		n := int64(0)
		for _, key := range a[1:] {
			if d.keys[key] != nil {
				delete(d.keys, key)
				n++
			}
		}
		return n
	}
	v := d.keys[a[1]]
	switch a[0] {
	case "EXISTS":
		return count(v != nil)
	case "PEXPIRE":
		d.wrote = true
		if v != nil {
			millis, err := strconv.ParseInt(a[2], 10, 64)
			if err != nil {
				return refusal("ERR value is not an integer or out of range")
			}
			v.ends = d.now + time.Duration(millis)*time.Millisecond
		}
		return count(v != nil)
	}
	isHash := a[0][0] == 'H'
	if v != nil && (v.hash != nil) != isHash {
		return wrongType
	}
	if d.full && !d.wrote && (a[0] == "HSET" || a[0] == "ZADD") {
		return oom
	}
	d.wrote = d.wrote || slices.Contains(writes, a[0])
	if v == nil {
		v = &value{}
	}
	var reply any
	if isHash {
		reply = v.doHash(a)
	} else {
		reply = v.doSorted(a)
	}
	if len(v.hash)+len(v.sorted) == 0 {
		delete(d.keys, a[1])
	} else if d.keys[a[1]] == nil {
		d.keys[a[1]] = v
	}
	return reply
}

// runID names a server, as INFO does. Processes know its first 12 digits.
func runID(run int) string {
	text := strconv.FormatInt(int64(run)+1<<44, 16)
	return text + strings.Repeat("0", 40-len(text))
}

func count(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// doHash runs a command of a hash.
func (v *value) doHash(a []string) any {
	switch a[0] {
	case "HMGET":
		reply := make([]any, len(a)-2)
		for i, field := range a[2:] {
			if text, ok := v.hash[field]; ok {
				reply[i] = text
			}
		}
		return reply
	case "HSET":
		if v.hash == nil {
			v.hash = map[string]string{}
		}
		before := len(v.hash)
		for i := 2; i+1 < len(a); i += 2 {
			v.hash[a[i]] = a[i+1]
		}
		return int64(len(v.hash) - before)
	case "HDEL":
		before := len(v.hash)
		for _, field := range a[2:] {
			delete(v.hash, field)
		}
		return int64(before - len(v.hash))
	case "HGETALL":
		fields := make([]string, 0, len(v.hash))
		for field := range v.hash {
			fields = append(fields, field)
		}
		slices.Sort(fields)
		reply := make([]any, 0, 2*len(fields))
		for _, field := range fields {
			reply = append(reply, field, v.hash[field])
		}
		return reply
	}
	return refusal("ERR unknown command " + a[0])
}

// find is where a member is in a sorted set, or would be.
func (v *value) find(m scored) int {
	at, _ := slices.BinarySearchFunc(v.sorted, m, func(x, y scored) int {
		return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(x.name, y.name))
	})
	return at
}

func (v *value) remove(name string) bool {
	score, there := v.scores[name]
	if there {
		at := v.find(scored{name, score})
		v.sorted = slices.Delete(v.sorted, at, at+1)
		delete(v.scores, name)
	}
	return there
}

func (v *value) add(name string, score float64) {
	v.remove(name)
	if v.scores == nil {
		v.scores = map[string]float64{}
	}
	v.scores[name] = score
	m := scored{name, score}
	v.sorted = slices.Insert(v.sorted, v.find(m), m)
}

// number is how Redis writes a score.
func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e17 {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'g', 17, 64)
}
