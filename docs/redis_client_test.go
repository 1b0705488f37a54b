package docs

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// What the page on outages says of go-redis is so in the version that go.mod has.
func TestDefaultsOfTheClient(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is dialled
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	page := read(t, "docs/outages.md")[0].text
	require.Contains(t, page, fmt.Sprintf("// go-redis waits for %.0f s\n", client.Options().ReadTimeout.Seconds()))
	require.Contains(t, page, fmt.Sprintf("// … and dials %d times\n", client.Options().DialerRetries))
}
