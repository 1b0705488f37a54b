package redisserver

import (
	"errors"
	"os/exec"
)

// ErrMissing says that no redis-server can be started here.
var ErrMissing = errors.New("neither redis-server nor valkey-server is in PATH: install one" +
	" (apt-get install redis-server, brew install redis)")

// Binary is the path of the program that Start starts.
func Binary() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}
