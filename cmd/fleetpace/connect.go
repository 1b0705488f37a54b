package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// errConnect says that Redis does not answer.
var errConnect = errors.New("redis does not answer")

// errLogin says that Redis answers, but refuses the user or the password.
var errLogin = errors.New("redis refuses the user or the password of --redis (or FLEETPACE_REDIS_URL)")

const urlForms = `The URL of Redis is that of --redis or, without it, of FLEETPACE_REDIS_URL:

  redis://user:password@host:6379/0                 one server; rediss:// for TLS
  redis://host:6379?addr=host2:6379                 a Cluster
  redis://sentinel:26379?master_name=mymaster       Sentinel
`

// connect makes a client for a URL. It sends nothing yet.
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

// withoutPassword is the URL with the word PASSWORD in place of each password. Without any, the command would run as
// the default user.
func withoutPassword(text string) string {
	const hidden = "PASSWORD"
	u, err := url.Parse(text)
	if err != nil { // connect reports it
		return ""
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), hidden)
	}
	q := u.Query()
	for _, name := range []string{"password", "sentinel_password"} {
		if q.Has(name) {
			q.Set(name, hidden)
			u.RawQuery = q.Encode()
		}
	}
	return u.String()
}

// address is where the Redis of a URL is, with the number of the database if that is not 0.
func address(text string) string {
	u, err := url.Parse(text)
	if err != nil { // connect reports it
		return ""
	}
	if database := strings.Trim(u.Path, "/"); u.Host != "" && database != "" && database != "0" {
		return u.Host + "/" + database
	}
	return cmp.Or(u.Host, u.Path)
}

// patience is how long one command waits for Redis.
const patience = 3 * time.Second

// hidden returns the error without its URL, which may hold a password.
func hidden(err error) error {
	var wrong *url.Error
	if errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}

// reach checks that Redis answers.
func reach(ctx context.Context, client redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := client.Ping(ctx).Err()
	switch {
	case err == nil, strings.HasPrefix(err.Error(), "NOPERM"):
		return nil
	case redis.IsAuthError(err):
		return fmt.Errorf("%w: %w", errLogin, err)
	}
	return fmt.Errorf("%w: %w", errConnect, err)
}
