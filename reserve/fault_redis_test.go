package reserve_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// simRedis is the Redis of a history: a miniredis that is handed commands without
// a connection, with a clock of its own, and a book of what its scripts replied.
type simRedis struct {
	log   *eventLog
	redis *miniredis.Miniredis
	keys  []string // of the line

	mu      sync.Mutex
	offset  time.Duration // of its clock from that of the processes
	refusal string        // the error that it gives to every command; empty: none
	saved   *snapshot
	scripts *scripts
	planted map[string]string // by the SHA of a script: one with a bug
	book    *book
}

func newSimRedis(log *eventLog, keys []string, b *book) (*simRedis, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	conn, err := m.Dial() // that starts it
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	return &simRedis{log: log, redis: m, keys: keys, book: b, scripts: newScripts(m.Server())}, nil
}

// heard notes that the reply to a command arrived.
func (s *simRedis) heard(args []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.heard(args)
}

// serve carries out a command for a connection and returns the reply. The lost
// are those whose reply will not arrive.
func (s *simRedis) serve(e *end, args []string, lost bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != "" {
		return []byte("-" + s.refusal + "\r\n")
	}
	s.redis.SetTime(time.Now().Add(s.offset))
	e.out.Reset()
	if strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") {
		s.scripts.eval(e.peer, args, s.planted)
	} else {
		s.redis.Server().Dispatch(e.peer, args)
	}
	e.peer.Flush()
	reply := append([]byte(nil), e.out.Bytes()...)
	s.book.note(s.log, e.process, args, reply, time.Now().Add(s.offset), lost)
	return reply
}

func (s *simRedis) refuse(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = text
}

func (s *simRedis) step(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += by
}

// change does something to the data.
func (s *simRedis) change(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redis.SetTime(time.Now().Add(s.offset))
	what()
}

// snapshot is the state of the line at an earlier moment.
type snapshot struct {
	hash map[string]string
	sets []map[string]float64
	at   time.Time
	ttl  []time.Duration
}

// save keeps the state of the line, as a replica or a file on disk does.
func (s *simRedis) save() {
	s.change(func() {
		kept := &snapshot{hash: map[string]string{}, at: time.Now().Add(s.offset)}
		fields, _ := s.redis.HKeys(s.keys[0])
		for _, f := range fields {
			kept.hash[f] = s.redis.HGet(s.keys[0], f)
		}
		for _, key := range s.keys {
			set, _ := s.redis.SortedSet(key)
			kept.sets, kept.ttl = append(kept.sets, set), append(kept.ttl, s.redis.TTL(key))
		}
		s.saved = kept
	})
}

// rollBack puts what was saved in the place of what was written since.
func (s *simRedis) rollBack() {
	s.change(func() {
		kept := s.saved
		s.redis.FlushAll()
		if kept == nil {
			return
		}
		gone := time.Now().Add(s.offset).Sub(kept.at)
		for f, v := range kept.hash {
			s.redis.HSet(s.keys[0], f, v)
		}
		for i, key := range s.keys {
			for member, score := range kept.sets[i] {
				_, _ = s.redis.ZAdd(key, score, member)
			}
			if left := kept.ttl[i] - gone; s.redis.Exists(key) && left > 0 {
				s.redis.SetTTL(key, left)
			} else {
				s.redis.Del(key)
			}
		}
	})
}

func (s *simRedis) String() string { return fmt.Sprintf("redis at %v", s.offset) }

// forgetScripts is SCRIPT FLUSH. The server must be locked.
func (s *simRedis) forgetScripts() { clear(s.scripts.known) }
