package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The crawler, the batch, and the commands that they are watched with run on one machine with the
// addresses that their help gives: each port is named for one purpose. The metrics of the
// crawler's workers take as many ports, one behind the other.
func TestAddressesOfHelp(t *testing.T) {
	const workers = 3 // the crawler's default
	address := regexp.MustCompile(`StringVar\(&\S+ "([a-z]+)",.*localhost:(\d+)`)
	used := map[int]string{}
	for _, dir := range []string{"../cmd/fleetpace", "../examples/crawler", "../examples/batch"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range address.FindAllStringSubmatch(string(text), -1) {
				port, err := strconv.Atoi(m[2])
				require.NoError(t, err)
				count := map[bool]int{true: workers, false: 1}[m[1] == "metrics"]
				for p := port; p < port+count; p++ {
					what := file + " -" + m[1]
					assert.Empty(t, used[p], "port %d of %s is taken", p, what)
					used[p] = what
				}
			}
		}
	}
	require.Len(t, used, 1+3+workers+2, "Redis; listen of export, monitor and serve; metrics and monitor of the crawler; monitor of the batch: %v", used)
}
