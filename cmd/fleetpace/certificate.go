package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// certificate is a certificate and its key, which are read again when one of the files has changed.
type certificate struct {
	files [2]string // certificate, key
	errs  io.Writer

	mu      sync.Mutex
	changed [2]time.Time
	pair    *tls.Certificate
}

// get returns the certificate for a connection. If the new files are wrong, the previous certificate stays.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changed [2]time.Time
	for i, path := range c.files {
		if about, err := os.Stat(path); err == nil {
			changed[i] = about.ModTime()
		}
	}
	if c.pair != nil && changed == c.changed {
		return c.pair, nil
	}
	c.changed = changed
	switch pair, err := tls.LoadX509KeyPair(c.files[0], c.files[1]); {
	case err == nil:
		c.pair = &pair
	case c.pair == nil:
		return nil, fmt.Errorf("--cert, --key: %w", err)
	default:
		fmt.Fprintf(c.errs, "fleetpace: could not read the certificate again; the previous one is still used: %v\n", err)
	}
	return c.pair, nil
}
