package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// record is what Redis remembers of a run in addition to its frontier: the site. A continued run
// must crawl the same site. A site that this program serves must use its old ports, because they
// are part of the URLs.
type record struct {
	URL   string   `json:"url,omitempty"`
	Hosts []string `json:"hosts,omitempty"` // in addition to the URL's host
	Dir   string   `json:"dir,omitempty"`
	Demo  int      `json:"demo,omitempty"` // pages of the demo site
	Addrs []string `json:"addrs,omitempty"`
}

// keyOf names the keys of the crawler itself.
func keyOf(run, what string) string { return "fleetpace:crawler:{" + run + "}:" + what }

func recordOf(o *options) record {
	switch {
	case o.url != nil:
		return record{URL: o.url.String(), Hosts: o.hosts}
	case o.dir != "":
		return record{Dir: o.dir}
	default:
		return record{Demo: o.demo}
	}
}

func (r record) String() string {
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

// loadRecord returns the site of the run, and whether the run was started before.
func loadRecord(ctx context.Context, client redis.UniversalClient, o *options) (r record, continued bool, err error) {
	asked, key := recordOf(o), keyOf(o.run, "record")
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
		return asked, false, fmt.Errorf("-run %s crawls %s, not %s: give the same again to continue it, or another -run", o.run, r, asked)
	}
	return r, true, nil
}

// saveRecord is called before the first URL is added. The record expires with the memory of visited
// URLs.
func saveRecord(ctx context.Context, client redis.UniversalClient, run string, r record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return client.Set(ctx, keyOf(run, "record"), raw, visitedFor).Err()
}
