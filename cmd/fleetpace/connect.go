package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// errConnect is of a Redis that does not answer.
var errConnect = errors.New("redis does not answer")

const urlForms = `Redis is at the URL of --redis, or else of FLEETPACE_REDIS_URL:

  redis://user:password@host:6379/0                 one server; rediss:// for TLS
  redis://host:6379?addr=host2:6379                 a Cluster
  redis://sentinel:26379?master_name=mymaster       Sentinel
`

// connect makes a client for a URL. Nothing is asked yet.
func connect(text string) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, usageError{fmt.Errorf("--redis: %w", hidden(err))}
	}
	switch q := u.Query(); {
	case q.Has("master_name"):
		o, err := redis.ParseFailoverURL(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--redis: %w", hidden(err))}
		}
		o.DialTimeout, o.ReadTimeout = patience, patience
		o.DialerRetries, o.MaxRetries = 1, 1
		return redis.NewFailoverClient(o), nil
	case q.Has("addr"):
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--redis: %w", hidden(err))}
		}
		o.DialTimeout, o.ReadTimeout = patience, patience
		o.DialerRetries, o.MaxRetries = 1, 1
		return redis.NewClusterClient(o), nil
	default:
		o, err := redis.ParseURL(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--redis: %w", hidden(err))}
		}
		o.DialTimeout, o.ReadTimeout = patience, patience
		o.DialerRetries, o.MaxRetries = 1, 1
		return redis.NewClient(o), nil
	}
}

// patience is for how long one command waits for Redis.
const patience = 3 * time.Second

// hidden is an error of a URL without the URL, which may hold a password.
func hidden(err error) error {
	var wrong *url.Error
	if errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}

// reach asks Redis whether it is there.
func reach(ctx context.Context, client redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := client.Ping(ctx).Err()
	if err == nil || strings.HasPrefix(err.Error(), "NOPERM") {
		return nil
	}
	return fmt.Errorf("%w: %w", errConnect, err)
}
