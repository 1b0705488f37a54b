package example

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Run is what Redis remembers of a run in addition to its frontier: the site. A continued run
// must crawl the same site. A site that this program serves must use its old ports, because they
// are part of the URLs.
type Run struct {
	URL   string   `json:"url,omitempty"`
	Hosts []string `json:"hosts,omitempty"` // in addition to the URL's host
	Dir   string   `json:"dir,omitempty"`
	Demo  int      `json:"demo,omitempty"` // pages of the demo site
	Addrs []string `json:"addrs,omitempty"`
}

func (r Run) String() string {
	switch {
	case r.URL != "" && len(r.Hosts) > 0:
		return "-url " + r.URL + " -hosts " + strings.Join(r.Hosts, ",")
	case r.URL != "":
		return "-url " + r.URL
	case r.Dir != "":
		return "-dir " + r.Dir
	default:
		return fmt.Sprintf("the demo site of %d pages", r.Demo)
	}
}

// LoadRun returns the site of a run, and whether the run was started before. The asked site must be the
// same then.
func LoadRun(ctx context.Context, client redis.UniversalClient, name, key string, asked Run) (r Run, continued bool, err error) {
	raw, err := client.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return asked, false, nil
	}
	if err != nil {
		return asked, false, err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return asked, false, fmt.Errorf("redis key %s: %w: delete it or use another -run", key, err)
	}
	if r.URL != asked.URL || r.Dir != asked.Dir || r.Demo != asked.Demo || !slices.Equal(r.Hosts, asked.Hosts) {
		return asked, false, fmt.Errorf("-run %s crawls %s, not %s: give the same again to continue it, or another -run", name, r, asked)
	}
	return r, true, nil
}

// SaveRun is called before the first URL is added. The record expires with the memory of visited URLs.
func SaveRun(ctx context.Context, client redis.UniversalClient, key string, r Run, expiry time.Duration) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return client.Set(ctx, key, raw, expiry).Err()
}
