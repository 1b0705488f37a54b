package adaptive

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

const (
	expiry  = time.Hour       // of the rates that are set
	tripFor = 5 * time.Second // the longest trip to Redis
	mostSet = 3               // the most decisions that one trip carries out
)

var (
	//go:embed rate.lua
	rateLua string
	//go:embed report.lua
	reportLua string
	//go:embed applied.lua
	appliedLua string

	reportScript  = redis.NewScript(rateLua + reportLua)
	appliedScript = redis.NewScript(rateLua + appliedLua)
)

// verdict is the reply of the scripts.
type verdict struct {
	set          bool // the process is to set the limit, to rate
	version      int64
	news         time.Duration // refusals of calls that were sent up to this long after the reply belong to a known incident
	seen         int64         // Redis's time, in microseconds
	rate, before float64       // permits per second
}

// tell reports what the watch has collected to Redis, and sets the limit if the reply asks for it.
func (r *Rate) tell(w *watch) error {
	ctx, cancel := context.WithTimeout(r.fleet.ctx, tripFor)
	defer cancel()
	var told sight
	var err error
	for first := true; err == nil && (first || w.again()); first = false {
		told = w.take()
		err = r.trip(ctx, w, told)
	}
	w.ends(time.Now(), told, err)
	return err
}

func (r *Rate) trip(ctx context.Context, w *watch, told sight) error {
	c := r.fleet.config
	state, err := r.limiter.State(ctx)
	if err != nil {
		return err
	}
	v, err := r.run(ctx, w, reportScript, number(state.Rate), number(c.Floor.Rate()), number(c.Ceiling.Rate()),
		number(c.Decrease), number(c.Increase), c.Every.Microseconds(), c.Settle.Microseconds(), expiry.Microseconds(),
		told.used, told.sent, state.SetFor.Microseconds())
	for n := 0; err == nil && v.set && n < mostSet; n++ {
		before := v
		limit := reserve.PerSecond(v.rate).Burst(r.fleet.own.MaxBurst())
		if err = r.limiter.SetLimit(ctx, limit, expiry); err != nil {
			break
		}
		if v, err = r.run(ctx, w, appliedScript, v.version, c.Settle.Microseconds(), expiry.Microseconds()); err == nil {
			r.log(before)
		}
	}
	return err
}

// log logs a decision that was carried out.
func (r *Rate) log(v verdict) {
	what := "adaptive: the rate was raised"
	switch {
	case math.Abs(v.rate-v.before) <= 1e-9*v.before:
		return // renewed, so that it does not expire
	case v.rate < v.before:
		what = "adaptive: the rate was lowered"
	}
	r.fleet.config.Logger.Info(what, "limit", r.String(), "from", reserve.PerSecond(v.before), "to", reserve.PerSecond(v.rate))
}

func (r *Rate) run(ctx context.Context, w *watch, script *redis.Script, args ...any) (verdict, error) {
	reply, err := script.Run(ctx, r.fleet.client, []string{r.redisKey()}, args...).Result()
	if err != nil {
		return verdict{}, classify(err)
	}
	v, err := decode(reply)
	if err != nil {
		return verdict{}, err
	}
	w.heard(time.Now(), v)
	return v, nil
}

func decode(reply any) (verdict, error) {
	wrong := fmt.Errorf("%w: reply of a script: %v", reserve.ErrCorrupt, reply)
	values, ok := reply.([]any)
	if !ok || len(values) != 6 {
		return verdict{}, wrong
	}
	var whole [4]int64
	for i := range whole {
		if whole[i], ok = values[i].(int64); !ok {
			return verdict{}, wrong
		}
	}
	var rates [2]float64
	for i := range rates {
		text, ok := values[4+i].(string)
		rate, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil {
			return verdict{}, wrong
		}
		rates[i] = rate
	}
	return verdict{
		set: whole[0] == 1, version: whole[1], news: time.Duration(whole[2]) * time.Microsecond, seen: whole[3],
		rate: rates[0], before: rates[1],
	}, nil
}

// classify adds the sentinel error to an error of Redis or of the connection.
func classify(err error) error {
	var server redis.Error
	if !errors.As(err, &server) {
		return fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
	}
	for _, code := range []struct {
		words string
		means error
	}{
		{"BADARG", reserve.ErrInvalid},
		{"BADSTATE", reserve.ErrCorrupt},
		{"WRONGTYPE", reserve.ErrCorrupt},
		{"NOPERM", reserve.ErrDenied},
		{"ACL", reserve.ErrDenied},
		{"NOAUTH", reserve.ErrDenied},
		{"WRONGPASS", reserve.ErrDenied},
		{"can't run this command", reserve.ErrDenied},
	} {
		if strings.Contains(server.Error(), code.words) {
			return fmt.Errorf("%w: %w", code.means, err)
		}
	}
	return fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
}

// number writes x without rounding.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
