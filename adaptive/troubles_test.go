package adaptive_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/reserve"
)

// A Redis 6.2 whose setting forbids scripts that read the clock and write says so in
// words of its own; the log says what to set.
func TestRedisThatDoesNotReplicateEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		var log bytes.Buffer
		p := b.process(reserve.PerSecond(10), adaptive.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		b.Redis.SetError("ERR Error running script (call to f_4f1d): @user_script:75: @user_script: 75: Write commands not" +
			" allowed after non deterministic commands. Call redis.replicate_commands() at the start of your script")
		p.refused()
		require.Contains(t, log.String(), reserve.ErrDenied.Error())
		require.Contains(t, log.String(), "set lua-replicate-commands yes")
	})
}
