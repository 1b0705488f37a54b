package reserve_test

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// faultyRedis is the Redis of a history, with a clock of its own.
type faultyRedis struct {
	*miniredis.Miniredis

	mu     sync.Mutex
	offset time.Duration // of its clock from that of the processes
	text   string        // the error that it gives to every command; empty: none
	saved  map[string]saved
	run    int // another one after it has failed over, or was restarted
}

// newFaultyRedis returns one that tells its run ID, which miniredis does not.
func newFaultyRedis(m *miniredis.Miniredis) *faultyRedis {
	r := &faultyRedis{Miniredis: m}
	if conn, err := m.Dial(); err == nil { // the first one makes its server
		_ = conn.Close()
	}
	m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || args[0] != "server" {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		c.WriteBulk(fmt.Sprintf("# Server\r\nrun_id:%012x%028x\r\n", r.run, 0))
		return true
	})
	return r
}

// saved is what one key held.
type saved struct {
	hash  map[string]string
	set   map[string]float64
	until time.Time
}

// refuses is the error that every command has now, or empty. It sets the clock.
func (r *faultyRedis) refuses() string {
	r.mu.Lock()
	offset, text := r.offset, r.text
	r.mu.Unlock() // a script that asks for the run ID holds the lock that SetTime takes
	if offset != 0 {
		r.SetTime(time.Now().Add(offset))
	}
	return text
}

func (r *faultyRedis) refuse(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = text
}

func (r *faultyRedis) step(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offset += by
}

// save keeps the data, as a replica or a file on disk does.
func (r *faultyRedis) save() {
	data := map[string]saved{}
	for _, key := range r.Keys() {
		s := saved{until: time.Now().Add(r.TTL(key))}
		if r.Type(key) == "hash" {
			s.hash = map[string]string{}
			fields, _ := r.HKeys(key)
			for _, f := range fields {
				s.hash[f] = r.HGet(key, f)
			}
		} else {
			set, _ := r.SortedSet(key) // miniredis goes on with it
			s.set = maps.Clone(set)
		}
		data[key] = s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = data
}

// rollBack puts what was saved in the place of what was written since.
func (r *faultyRedis) rollBack() {
	r.mu.Lock()
	data := r.saved
	r.mu.Unlock()
	r.restart()
	for key, s := range data {
		for f, v := range s.hash {
			r.HSet(key, f, v)
		}
		for member, score := range s.set {
			_, _ = r.ZAdd(key, score, member)
		}
		if left := time.Until(s.until); left > 0 {
			r.SetTTL(key, left)
		} else {
			r.Del(key)
		}
	}
}

// restart lets another server, which knows nothing, take over.
func (r *faultyRedis) restart() {
	r.FlushAll()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run++
}

// flushScripts lets the server forget them.
func (r *faultyRedis) flushScripts() {
	conn, err := r.Dial()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte("*2\r\n$6\r\nSCRIPT\r\n$5\r\nFLUSH\r\n"))
	_, _ = conn.Read(make([]byte, 64))
}
