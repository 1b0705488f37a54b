package reserve

import (
	"sync"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// remembered is how many keys a process caches at least, the ones used last. It caches at most
// twice as many.
const remembered = 10_000

// keyed caches the limits of keys. The zero value is ready to use, by many goroutines.
//
// A key that is used stands in recent. When recent is full, it becomes older, and what was older is
// forgotten. So a look-up moves nothing, unless the key was not used for long.
type keyed struct {
	mu            sync.RWMutex
	recent, older map[string]*wire.Limit // guarded by mu
}

// get returns the cached limit of a key, or else a new one, which it caches.
func (k *keyed) get(key string, create func(key string) *wire.Limit) *wire.Limit {
	k.mu.RLock()
	l, ok := k.recent[key]
	k.mu.RUnlock()
	if ok {
		return l
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if l, ok = k.recent[key]; ok {
		return l
	}
	if l, ok = k.older[key]; !ok {
		l = create(key)
	}
	if k.recent == nil || len(k.recent) >= remembered {
		k.recent, k.older = map[string]*wire.Limit{}, k.recent
	}
	k.recent[key] = l
	return l
}
