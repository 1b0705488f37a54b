// Package database is the Redis database that a program measures on: that of a
// redis-server of its own, or the one that its flag -redis names.
package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

// CheckURL checks what -redis names, if it names something.
func CheckURL(url string) error {
	if url == "" {
		return nil
	}
	if _, err := redis.ParseURL(url); err != nil {
		return fmt.Errorf("-redis: not a URL such as redis://localhost:6379/9: %w", err)
	}
	return nil
}

// Open returns the URL of the database: the one that -redis names, or where it names
// nothing, that of a redis-server of our own. Call stop in the end.
func Open(named string) (url string, stop func(), err error) {
	if named != "" {
		return named, func() {}, nil
	}
	server, err := redisserver.Start()
	if errors.Is(err, redisserver.ErrMissing) {
		return "", nil, fmt.Errorf("%w, or name a running Redis with -redis", err)
	}
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Stop, nil
}

// ExpectEmpty keeps somebody's data from being emptied between the parts of a run,
// such as "cases".
func ExpectEmpty(ctx context.Context, client *redis.Client, parts string) error {
	keys, err := client.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	if keys > 0 {
		return fmt.Errorf("-redis: the database holds %d keys: name an empty one, such as redis://localhost:6379/9, since it is emptied between %s", keys, parts)
	}
	return nil
}

// Empty has a time limit of its own, since a Redis that was not ours is also
// emptied after Ctrl-C.
func Empty(client *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return client.FlushDB(ctx).Err()
}
