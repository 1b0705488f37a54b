package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	rttOneWay = 2500 * time.Microsecond
	rttRate   = 2000 // calls per second
)

// runRTT measures how long calls take that come at random while Redis is 5 ms away.
func runRTT(ctx context.Context, s *session, t trial) ([]*record, error) {
	options, err := redis.ParseURL(s.url)
	if err != nil {
		return nil, err
	}
	p, err := startProxy(options.Addr, rttOneWay)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	far := &session{url: s.url, via: p.address()}
	players, err := far.players(ctx, t)
	defer func() {
		for _, p := range players {
			p.leave()
		}
	}()
	if err != nil {
		return nil, err
	}
	var seed uint64
	err = interleave(t.rounds, players, func(p *player, counts bool) error {
		s.describe(t.name + " " + p.name)
		defer s.advance(p.slice)
		seed++
		moments := poisson(seed, rttRate, p.slice)
		if len(moments) == 0 {
			return errTooShort
		}
		var all []answered
		commands, err := s.counted(ctx, p.contender, func() (err error) {
			all, err = openLoop(ctx, func(ctx context.Context) error { return p.ask(ctx, "") }, time.Now(), moments)
			return err
		})
		if err == nil && counts {
			noteOpen(p.record, all, commands)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return recordsOf(players), nil
}
