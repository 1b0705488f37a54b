package emulator

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"
)

// ShopifyConfig sets the bucket of each shop. The shop is the host of the request.
type ShopifyConfig struct {
	Points float64 // the bucket holds so many; default 1000
	Rate   float64 // points per second; default 50

	// Query returns what a query may cost at most, what it costs, and how long it takes. Several
	// goroutines call it at a time.
	Query func(*http.Request) (requested, actual float64, takes time.Duration)
}

// Shopify is the GraphQL Admin API of Shopify. A query needs its requested cost at once, and gets back what it
// did not use with its answer. A refusal has status 200. Make one with [NewShopify]. It is safe for concurrent
// use.
type Shopify struct {
	config ShopifyConfig

	mu    sync.Mutex
	shops map[string]*Shop
}

// NewShopify makes an API whose shops have full buckets. The error is an [ErrInvalid].
func NewShopify(config ShopifyConfig) (*Shopify, error) {
	if config.Points == 0 {
		config.Points = 1000
	}
	if config.Rate == 0 {
		config.Rate = 50
	}
	switch {
	case config.Points < 1:
		return nil, invalid("ShopifyConfig.Points", "must be at least 1, or 0 for 1000, got %v", config.Points)
	case !(config.Rate > 0):
		return nil, invalid("ShopifyConfig.Rate", "must be positive, or 0 for 50, got %v", config.Rate)
	}
	return &Shopify{config: config, shops: map[string]*Shop{}}, nil
}

// Shop returns the shop of a host.
func (s *Shopify) Shop(host string) *Shop {
	s.mu.Lock()
	defer s.mu.Unlock()
	shop := s.shops[host]
	if shop == nil {
		shop = &Shop{bucket: bucket{Limit: Limit{Name: host}, rate: s.config.Rate, holds: s.config.Points, level: s.config.Points}}
		s.shops[host] = shop
	}
	return shop
}

// Shop is the bucket of one shop. It is safe for concurrent use.
type Shop struct {
	mu       sync.Mutex
	bucket   bucket
	others   float64
	open     int
	mostOpen int
	left     float64 // points after the last query had begun
	last     time.Time
}

// ThrottleStatus is what an answer says of the bucket.
type ThrottleStatus struct {
	Throttled          bool
	MaximumAvailable   float64
	CurrentlyAvailable float64
	RestoreRate        float64 // points per second
}

func (s *Shop) status(now time.Time) ThrottleStatus {
	left, _ := s.bucket.left(now)
	return ThrottleStatus{MaximumAvailable: s.bucket.holds, CurrentlyAvailable: left, RestoreRate: s.bucket.rate}
}

// Begin takes the requested cost of a query, or says that the query is throttled.
func (s *Shop) Begin(now time.Time, requested float64) ThrottleStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bucket.wait(now, requested) > 0 {
		s.bucket.refuse()
		status := s.status(now)
		status.Throttled = true
		return status
	}
	s.bucket.take(now, requested)
	s.open++
	s.mostOpen = max(s.mostOpen, s.open)
	s.last, s.left = now, s.bucket.level
	return s.status(now)
}

// End gives back what a query did not use of its requested cost.
func (s *Shop) End(now time.Time, requested, actual float64) ThrottleStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.bucket.take(now, actual-requested)
	return s.status(now)
}

// Others lets another program use points. It reports whether they were at hand.
func (s *Shop) Others(now time.Time, points float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bucket.wait(now, points) > 0 {
		return false
	}
	s.bucket.take(now, points)
	s.others += points
	return true
}

// SetRate changes the points per second, as another plan does.
func (s *Shop) SetRate(now time.Time, rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bucket.change(now, rate, s.bucket.holds)
}

// ShopReport is what a shop has seen so far.
type ShopReport struct {
	Used      float64   // points, without those of others
	Throttled int       // queries
	MostOpen  int       // the most queries at a time
	Last      time.Time // when the last query began
	Left      float64   // points that were at hand after that
}

// Report returns what the shop has seen so far.
func (s *Shop) Report() ShopReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ShopReport{s.bucket.Used - s.others, s.bucket.Refused, s.mostOpen, s.last, s.left}
}

// ServeHTTP serves a query.
func (s *Shopify) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requested, actual, takes := 10.0, 10.0, time.Duration(0)
	if s.config.Query != nil {
		requested, actual, takes = s.config.Query(r)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if requested > mostPoints {
		_, _ = fmt.Fprintf(w, `{"errors":[{"message":"Query cost is %v, which exceeds the single query max cost limit (1000).","extensions":{"code":"MAX_COST_EXCEEDED","cost":%v,"maxCost":1000}}]}`,
			requested, requested)
		return
	}
	shop := s.Shop(r.Host)
	status := shop.Begin(time.Now(), requested)
	if status.Throttled {
		_, _ = fmt.Fprintf(w, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":%s}`, costOf(requested, "null", status))
		return
	}
	sleep(r.Context().Done(), takes)
	status = shop.End(time.Now(), requested, actual)
	_, _ = fmt.Fprintf(w, `{"data":{"shop":{"name":"emulated"}},"extensions":%s}`, costOf(requested, fmt.Sprint(actual), status))
}

const mostPoints = 1000 // the most points that one query may request

func costOf(requested float64, actual string, s ThrottleStatus) string {
	return fmt.Sprintf(`{"cost":{"requestedQueryCost":%v,"actualQueryCost":%s,"throttleStatus":{"maximumAvailable":%v,"currentlyAvailable":%v,"restoreRate":%v}}}`,
		requested, actual, s.MaximumAvailable, math.Floor(s.CurrentlyAvailable), s.RestoreRate)
}
