package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/fleetpace/fleetpace/reserve"
)

// longestKey is what reserve.Limiter.For takes, in bytes.
const longestKey = 512

// errKey: it is not known whose request it is.
var errKey = errors.New("the request has no key")

// limiterFor is the line of a request.
func (m *middleware) limiterFor(r *http.Request) (*reserve.Limiter, error) {
	if m.config.Key == nil {
		return m.limiter, nil
	}
	key, err := m.config.Key(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKey, err)
	}
	if key == "" {
		return nil, errKey
	}
	return m.limiter.For(bounded(key)), nil
}

// bounded hashes a key that is too long, a token for example. Cut off, it would be
// that of everybody whose key begins alike. Somebody may send the hash as a key, but
// has to know the whole key for it.
func bounded(key string) string {
	if len(key) <= longestKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}
