package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/smallredis"
	"github.com/redis/go-redis/v9"
)

// transcript plays a path again, and returns one line per action. If the state at its end was played on, it
// also returns what happens then. The commands make a real Redis do the same.
func (x *explorer) transcript(path []int, playOn bool) (lines []string, commands []command) {
	x.told, x.commands = []string{}, nil
	w := x.first()
	x.note(w)
	for _, choice := range path {
		w = x.next(w)[choice]
		x.note(w)
	}
	if playOn {
		x.told = append(x.told, "from here on nothing goes wrong:")
		x.note(x.alive(w))
	}
	lines, x.told = x.told, nil
	if n := len(path) + 20; len(lines) > n {
		lines = append(lines[:n], fmt.Sprintf("and so on: %d lines more, and the last one is", len(lines)-n-1), lines[len(lines)-1])
	}
	return lines, x.commands
}

// note adds what has happened in a world since the last note.
func (x *explorer) note(w *world) {
	if x.told != nil && len(w.lines) > 0 {
		x.told = append(x.told, fmt.Sprintf("%10.1f ms  %s  [%s]", float64(w.now-start)/1000, strings.Join(w.lines, "; "), x.state(w)))
		w.lines = nil
	}
	x.commands = append(x.commands, w.commands...)
	w.commands = nil
}

// tell writes the answers of a reply.
func (x *explorer) tell(w *world, m message) {
	if x.told == nil {
		return
	}
	for i, c := range m.calls {
		switch a := m.answers[i].At(0); {
		case a.Turn:
			x.say(w, "%s has a turn in %v, until %v", name(c), a.Wait, a.Until)
		case a.Refused != nil:
			x.say(w, "%s is refused: %v", name(c), a.Refused)
		case a.TooLate:
			x.say(w, "%s is too late by %v", name(c), a.Wait)
		case a.Booked:
			x.say(w, "%s is booked, and comes back in %v", name(c), a.Wait)
		default:
			x.say(w, "%s has a place, its turn is in %v", name(c), a.Wait)
		}
	}
}

// state returns what Redis holds, for people.
func (x *explorer) state(w *world) string {
	var all []string
	for j := range x.Limits {
		var says []string
		for k, what := range map[int]string{1: "wait", 2: "in the log", 4: "booked"} {
			if key := w.data.Find(x.keys[j][k]); key != nil {
				var members []string
				for _, i := range key.Items {
					members = append(members, x.member(i.Member))
				}
				says = append(says, strings.Join(members, ", ")+" "+what)
			}
		}
		slices.Sort(says)
		if key := w.data.Find(x.keys[j][0]); key != nil {
			until := func(field string) time.Duration {
				return duration(asMicros(key, field) - w.redis())
			}
			if free := until("nextFreeTicketMicros"); x.Limits[j].Kind == "p" && free > 0 {
				says = append(says, fmt.Sprintf("what is spent is back in %v", free))
			} else if x.Limits[j].Kind == "p" {
				says = append(says, fmt.Sprintf("%.1f permits are left", min(-float64(free.Microseconds())/w.providers[j].a, w.providers[j].b)))
			}
			if key.Get("pausedUntilMicros") != nil && until("pausedUntilMicros") > 0 {
				says = append(says, fmt.Sprintf("paused for %v", until("pausedUntilMicros")))
			}
		}
		all = append(all, fmt.Sprintf("api%d: %s", j, strings.Join(says, "; ")))
	}
	return strings.Join(all, " | ")
}

// member names a call that waits or holds slots, for people. For other members it is the text.
func (x *explorer) member(text string) string {
	words := strings.Split(text, ":")
	if len(words) > 2 {
		for c, plan := range x.Calls {
			number, _ := strconv.ParseInt(words[1], 10, 64)
			if words[0] == fmt.Sprintf("p%d", plan.Process) && number%50 == x.number(c, 0) {
				return name(c)
			}
		}
	}
	return text
}

// all returns the keys of a world.
func (x *explorer) all() (keys []string) {
	for j := range x.keys {
		keys = append(keys, x.keys[j]...)
		keys = append(append(keys, x.named[j].Life...), x.named[j].Keys...)
	}
	return keys
}

// wipe returns the command that deletes all keys.
func (x *explorer) wipe() command { return command{plain: append([]string{"DEL"}, x.all()...)} }

// restore returns the commands that write data.
func restore(d smallredis.Data) (commands []command) {
	for _, k := range d {
		for _, i := range k.Items {
			if k.Hash {
				commands = append(commands, command{plain: []string{"HSET", k.Name, i.Member, i.Value}})
			} else {
				commands = append(commands, command{plain: []string{"ZADD", k.Name, smallredis.Text(i.Score), i.Member}})
			}
		}
	}
	return commands
}

// replay runs commands on a real Redis, under keys that begin with a prefix. It reports the first reply
// that differs there.
func (x *explorer) replay(ctx context.Context, client redis.UniversalClient, prefix string, commands []command) error {
	keyed := func(key string) string {
		if strings.HasPrefix(key, "explore:") {
			return prefix + key
		}
		return key
	}
	defer func() {
		for _, key := range x.all() {
			client.Del(ctx, keyed(key))
		}
	}()
	for n, c := range commands {
		if c.plain != nil {
			args := []any{c.plain[0]}
			for _, a := range c.plain[1:] {
				args = append(args, keyed(a))
			}
			if err := client.Do(ctx, args...).Err(); err != nil {
				return err
			}
			continue
		}
		keys, args := make([]string, len(c.keys)), []any{c.now}
		for i, key := range c.keys {
			keys[i] = keyed(key)
		}
		for _, a := range c.args[1:] {
			args = append(args, a)
		}
		reply, err := redis.NewScript(c.script).Run(ctx, client, keys, args...).Slice()
		if err != nil {
			return err
		}
		want := c.reply
		if strings.HasSuffix(c.keys[0], "processes") { // the reply to a heartbeat contains the name of the server
			reply[3], want[3] = "", ""
		}
		if !reflect.DeepEqual(want, reply) {
			return fmt.Errorf("command %d of %d, %q %q: the embedded Redis replies %v, the real one %v", n+1, len(commands), c.keys[0], c.args, want, reply)
		}
	}
	return nil
}
