package redistest

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

const (
	envURL     = "FLEETPACE_REDIS_URL"
	envKind    = "FLEETPACE_REDIS"
	envImage   = "FLEETPACE_REDIS_IMAGE"
	envRequire = "FLEETPACE_REQUIRE"

	defaultImage = "redis:7-alpine"
)

// settings are the environment's settings for the Redis of the tests.
type settings struct {
	url           string
	only          Kind // empty: New may choose
	image         string
	requireRedis  bool
	requireDocker bool
}

// readSettings reads the environment on each call, so that a test may set it.
func readSettings() (settings, error) {
	s := settings{
		url:   os.Getenv(envURL),
		only:  Kind(os.Getenv(envKind)),
		image: os.Getenv(envImage),
	}
	if s.image == "" {
		s.image = defaultImage
	}
	if s.only != "" && !slices.Contains([]Kind{KindURL, KindDocker, KindLocal}, s.only) {
		return settings{}, fmt.Errorf("redistest: %s=%q is not known: want url, docker or local, or leave it empty", envKind, s.only)
	}
	if s.only == KindURL && s.url == "" {
		return settings{}, fmt.Errorf("redistest: %s=url needs %s: set it to redis://host:port", envKind, envURL)
	}
	for _, word := range strings.Split(os.Getenv(envRequire), ",") {
		switch strings.TrimSpace(word) {
		case "":
		case "redis":
			s.requireRedis = true
		case "docker":
			s.requireDocker = true
		case "postgres": // riverpace's tests read it themselves
		default:
			return settings{}, fmt.Errorf("redistest: %s=%q: %q is not known: want a comma list of redis, docker, postgres", envRequire, os.Getenv(envRequire), strings.TrimSpace(word))
		}
	}
	return s, nil
}
