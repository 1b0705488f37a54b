package wire

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// Foreign looks for a name under which living processes have another kind of limit in force. It asks about the
// names whose kinds Redis has not sent with a heartbeat, and changes nothing. A process counts as dead if it has
// been silent for a time. For an empty name all is well.
func Foreign(ctx context.Context, client redis.UniversalClient, limits []*Limit, dead time.Duration) (*Name, *Ruling, error) {
	var names []*Name
	for _, l := range limits {
		if !l.Name.Sure.Load() && !slices.Contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return nil, nil, nil
	}
	rulings, err := rulingsOf(ctx, client, names)
	for i, ruling := range rulings {
		if ruling.Kind == "" || ruling.Kind == names[i].Kind {
			continue
		}
		used, err := names[i].usedNow(ctx, client, dead)
		if used || err != nil {
			return names[i], &ruling, err
		}
	}
	return nil, nil, err
}

// rulingsOf reads which limits are in force under some names.
func rulingsOf(ctx context.Context, client redis.UniversalClient, names []*Name) ([]Ruling, error) {
	read := func(c redis.Cmdable, n *Name) *redis.SliceCmd { return c.HMGet(ctx, n.Keys[0], " kind", " limit") }
	replies := make([]*redis.SliceCmd, len(names))
	var err error
	if len(names) == 1 { // one command needs no pipeline, which takes a trip more
		replies[0] = read(client, names[0])
		err = replies[0].Err()
	} else {
		pipe := client.Pipeline()
		for i, n := range names {
			replies[i] = read(pipe, n)
		}
		_, err = pipe.Exec(ctx)
	}
	if err = mayNot(err); err != nil {
		return nil, err
	}
	rulings := make([]Ruling, len(names))
	for i, reply := range replies {
		if values := reply.Val(); len(values) == 2 {
			rulings[i].Kind, _ = values[0].(string)
			rulings[i].Limit, _ = values[1].(string)
		}
	}
	return rulings, nil
}

// usedNow reports whether living processes use a name.
func (n *Name) usedNow(ctx context.Context, client redis.UniversalClient, dead time.Duration) (bool, error) {
	pipe := client.Pipeline()
	now, limits := pipe.Time(ctx), pipe.HGetAll(ctx, n.Keys[0])
	beats := pipe.ZRangeByScoreWithScores(ctx, n.Life[0], &redis.ZRangeBy{Min: "(0", Max: "+inf"})
	if _, err := pipe.Exec(ctx); err != nil {
		return false, mayNot(err)
	}
	since := float64(now.Val().Add(-dead).UnixMicro())
	for _, beat := range beats.Val() {
		process, _ := beat.Member.(string)
		pace, _, _ := strings.Cut(limits.Val()[process], " ") // a process without a limit that counts has a sign there
		if _, err := strconv.ParseFloat(pace, 64); err == nil && beat.Score > since {
			return true, nil
		}
	}
	return false, nil
}

// mayNot returns the error of a command, or nil if the user may not read that: then the script says what it may.
func mayNot(err error) error {
	if err == nil {
		return nil
	}
	if err = fault.Classify(err); errors.Is(err, fault.ErrDenied) {
		return nil
	}
	return err
}
