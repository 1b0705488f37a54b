package llm

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

const (
	firstRatio = 1.2 // tokens for four bytes, before anything is known: some more than in English
	surely     = 20  // calls of a route after which the mean of their prompts counts
	surelySaid = 5   // answers of a route after which their mean counts; before, a call reserves all that it may produce
	memory     = 200 // the mean is about so many calls
	mostRoutes = 1000
	mostRoute  = 100     // bytes
	mostRatio  = 4       // a token has at least a byte
	mostOutput = 1 << 20 // tokens of an answer

	shareEvery  = 2 * time.Second // how often a process exchanges means with Redis; that takes two trips
	mostShared  = 50              // routes that it exchanges together
	learnedLife = 7 * 24 * time.Hour
)

// learns is what calls of a model have used, by route. The fleet shares it, in a plain hash of Redis. Without Redis,
// each process learns alone.
type learns struct {
	client  redis.UniversalClient
	key     string
	log     *slog.Logger
	byBytes bool // the provider itself counts prompts by their bytes

	mu      sync.Mutex
	routes  map[string]*learned
	changed map[string]*learned // since the last exchange
	shared  time.Time           // when that began
}

// learned are means over the calls of a route.
type learned struct {
	ratio, output mean
	asked         bool // Redis was asked for it
}

// mean is a mean over the last values, about. The last fields have the values that Redis does not have.
type mean struct{ is, n, sum, more float64 }

func (m *mean) add(x float64) {
	m.n = min(m.n+1, memory)
	m.is += (x - m.is) / m.n
	m.sum, m.more = m.sum+x, m.more+1
}

// take takes over a mean of Redis, and adds the own values to it.
func (m *mean) take(is, n float64) {
	m.is, m.n = is, n
	if m.more > 0 {
		m.is = (is*n + m.sum) / (n + m.more)
		m.n = min(n+m.more, memory)
	}
}

// or returns the mean. Before enough calls are known, it lies between another value and the mean.
func (m *mean) or(first, surely float64) float64 {
	part := min(1, m.n/surely)
	return part*m.is + (1-part)*first
}

func newLearns(client redis.UniversalClient, config Config) *learns {
	prefix := config.Prefix
	if prefix == "" {
		prefix = reserve.DefaultPrefix
	}
	return &learns{
		client: client, key: prefix + ":{" + config.Account + "}/" + config.Preset.Model + ":learned", log: config.Logger,
		byBytes: config.Preset.Counting >= CountLarger, routes: map[string]*learned{}, changed: map[string]*learned{},
	}
}

func (l *learns) of(route string) *learned {
	r := l.routes[route]
	if r == nil {
		if len(l.routes) >= mostRoutes { // routes that hold IDs
			clear(l.routes)
		}
		r = &learned{}
		l.routes[route] = r
	}
	return r
}

// estimate fills in the tokens of a call whose answer has at most so many. The first call of a route asks Redis what
// the fleet has learned.
func (l *learns) estimate(ctx context.Context, e *Estimate, most int) {
	l.mu.Lock()
	r := l.of(e.route)
	first := !r.asked
	r.asked = true
	l.mu.Unlock()
	if first {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		_, _ = l.read(ctx, []string{e.route})
		cancel()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ratio := 1.0
	if !l.byBytes {
		ratio = r.ratio.or(firstRatio, surely)
	}
	e.Input = max(1, int(float64(e.bytes)/bytesPerToken*ratio))
	e.Output = max(1, min(int(r.output.or(float64(most), surelySaid)), most))
}

// learn takes in what a call has used: tokens of its prompt that count, and of its answer. It reports whether it is
// time to exchange means with Redis.
func (l *learns) learn(e Estimate, prompt, output int, complete bool) (share bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(e.route)
	if e.bytes > 0 {
		r.ratio.add(min(max(0, float64(prompt)*bytesPerToken/float64(e.bytes)), mostRatio))
	}
	if complete {
		r.output.add(float64(max(0, output)))
	}
	if l.changed[e.route] != nil || len(l.changed) < mostRoutes {
		l.changed[e.route] = r
	}
	now := time.Now()
	if share = now.Sub(l.shared) >= shareEvery; share {
		l.shared = now
	}
	return share
}

// read takes over what Redis has of some routes. It returns how many routes Redis has.
func (l *learns) read(ctx context.Context, routes []string) (all int64, err error) {
	pipe := l.client.Pipeline()
	values, size := pipe.HMGet(ctx, l.key, routes...), pipe.HLen(ctx, l.key)
	if _, err := pipe.Exec(ctx); err != nil {
		l.log.Debug("llm: what the fleet has learned could not be read", "key", l.key, "error", err)
		return 0, err
	}
	texts := values.Val()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, route := range routes {
		var ratio, ratioOf, output, outputOf float64
		text, _ := texts[i].(string)
		if n, _ := fmt.Sscan(text, &ratio, &ratioOf, &output, &outputOf); n == 4 && ratio >= 0 && output >= 0 && ratioOf >= 0 && outputOf >= 0 { // and no NaN
			r := l.of(route)
			r.ratio.take(min(ratio, mostRatio), min(ratioOf, memory))
			r.output.take(min(output, mostOutput), min(outputOf, memory))
		}
	}
	return size.Val(), nil
}

// exchange adds what this process has learned to what Redis has. Two processes that do so at the same moment may lose
// what one of them has learned since the last time.
func (l *learns) exchange(ctx context.Context) {
	var routes []string
	l.mu.Lock()
	for route := range l.changed {
		if len(routes) == mostShared {
			break
		}
		routes = append(routes, route)
		delete(l.changed, route)
	}
	l.mu.Unlock()
	if len(routes) == 0 {
		return
	}
	all, err := l.read(ctx, routes)
	if err != nil {
		return
	}
	var values []any
	l.mu.Lock()
	for _, route := range routes {
		r := l.of(route)
		values = append(values, route, fmt.Sprintf("%.4g %g %.6g %g", r.ratio.is, r.ratio.n, r.output.is, r.output.n))
		r.ratio.sum, r.ratio.more, r.output.sum, r.output.more = 0, 0, 0, 0
	}
	l.mu.Unlock()
	pipe := l.client.Pipeline()
	if all >= mostRoutes { // processes write again what they learn of
		pipe.Del(ctx, l.key)
	}
	pipe.HSet(ctx, l.key, values...)
	pipe.PExpire(ctx, l.key, learnedLife)
	if _, err := pipe.Exec(ctx); err != nil {
		l.log.Debug("llm: what this process has learned could not be written", "key", l.key, "error", err)
	}
}
