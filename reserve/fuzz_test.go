package reserve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What ParseLimit accepts is valid, prints, and reads back as the same limit.
func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{"100/s", "0.2/s", "1000/minute burst 200", "1/1h30m", "5/10s burst 3", "1e-3/day", "x/s", "1/s burst -1", "NaN/s",
		"20/s warmup 10s", "2000/day quota in Europe/Berlin", "100000/month quota margin 1s", "100/10s rolling margin 50ms"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLimit(text)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			require.Equal(t, Limit{}, l)
			return
		}
		require.NoError(t, l.Validate())
		require.Positive(t, l.micros())
		again, err := ParseLimit(l.String())
		require.NoError(t, err, l.String())
		require.Equal(t, l, again)
	})
}
