package docs

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// The page on outages states the defaults of the go-redis version in go.mod.
func TestDefaultsOfTheClient(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is dialled
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	page := read(t, "docs/outages.md")[0].text
	require.Contains(t, page, fmt.Sprintf("// go-redis's default: %.0f s\n", client.Options().ReadTimeout.Seconds()))
	require.Contains(t, page, fmt.Sprintf("// go-redis's default: %d attempts\n", client.Options().DialerRetries))
}
