package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// player is a contender in a case: its limiter, its client, and what was measured.
type player struct {
	contender
	asker
	client *redis.Client
	record *record
	slice  time.Duration
	tail   time.Duration // what the last slice took longer than it was told to
}

func (p *player) leave() {
	if p.asker.close != nil {
		p.asker.close()
	}
	_ = p.client.Close()
}

// finer is into how many the slices are cut where one goroutine asks. Machine and client
// sleep in each of its calls, and how long they take to wake is another from second to
// second.
const finer = 8

// closed is the case of so many goroutines that ask all the time: one limit, or
// many that are visited at random.
func closed(goroutines, limits int) func(context.Context, *session, trial) ([]*record, error) {
	var keys []string
	for i := range limits {
		keys = append(keys, fmt.Sprintf("tenant-%d", i))
	}
	return func(ctx context.Context, s *session, t trial) ([]*record, error) {
		if goroutines == 1 {
			t.rounds *= finer
		}
		players, err := s.players(ctx, t)
		defer func() {
			for _, p := range players {
				p.leave()
			}
		}()
		if err != nil {
			return nil, err
		}
		for _, p := range players {
			if p.forgets {
				continue
			}
			if err := visit(ctx, p.asker, keys); err != nil {
				return nil, fmt.Errorf("%s: warm up: %w", p.name, err)
			}
		}
		err = interleave(t.rounds, players, func(p *player, counts bool) error {
			s.describe(t.name + " " + p.name)
			defer s.advance(p.slice)
			var got sample
			commands, err := s.counted(ctx, p.contender, func() (err error) {
				got, err = closedLoop(ctx, p.asker, goroutines, keys, max(p.slice-p.tail, p.slice/2))
				return err
			})
			if err != nil {
				return err
			}
			p.tail = got.tail
			if counts {
				noteClosed(p.record, got, commands)
			}
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
		return recordsOf(players), nil
	}
}

// localShare is the part of a slice that contenders get which stay in the process:
// they make a million calls in it all the same.
const localShare = 0.25

// players opens the contenders of a case and divides its time among them.
func (s *session) players(ctx context.Context, t trial) ([]*player, error) {
	var players []*player
	shares := 0.0
	for _, c := range t.contenders {
		p := &player{contender: c, client: s.client(), record: newRecord(t.name, c.name)}
		players = append(players, p)
		if err := connect(ctx, p.client); c.sent != nil && err != nil {
			return players, err
		}
		var err error
		if p.asker, err = c.open(p.client, plenty(s.fresh())); err != nil {
			return players, fmt.Errorf("%s: %w", c.name, err)
		}
		shares += c.share()
	}
	for _, p := range players {
		p.slice = time.Duration(float64(t.time) * p.share() / shares / float64(t.rounds+1))
	}
	return players, nil
}

func (c contender) share() float64 {
	if c.sent == nil {
		return localShare
	}
	return 1
}

// interleave gives each player its slices, in turns, so that what else the machine
// does hits all alike. The first round is to warm up, and each round begins with
// another one.
func interleave(rounds int, players []*player, slice func(p *player, counts bool) error) error {
	for round := range rounds + 1 {
		for i := range players {
			p := players[(round+i)%len(players)]
			if err := slice(p, round > 0); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

func recordsOf(players []*player) []*record {
	var records []*record
	for _, p := range players {
		records = append(records, p.record)
	}
	return records
}

// visit asks once for each key, or without one if there are none.
func visit(ctx context.Context, a asker, keys []string) error {
	if len(keys) == 0 {
		return a.ask(ctx, "")
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(poolSize)
	for _, key := range keys {
		group.Go(func() error { return a.ask(ctx, key) })
	}
	return group.Wait()
}
