package reserve

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What ParseLimit accepts is valid, prints, and reads back as the same limit.
func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{"100/s", "0.2/s", "1000/minute burst 200", "1/1h30m", "5/10s burst 3", "1e-3/day", "x/s", "1/s burst -1", "NaN/s"} {
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

// However wrong a reply is, decoding it gives an error or sound values.
func FuzzDecodeReply(f *testing.F) {
	f.Add([]byte{1, 5, 1, 0, 1, 1, 1, 1, 1, 0}, 1)
	f.Add([]byte{2, 3, 'a', 'b', 'c'}, 2)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, raw []byte, tickets int) {
		if tickets < 0 || tickets > 1000 {
			return
		}
		reply := anyReply(bytes.NewReader(raw), 3)
		if a, err := decodeAnswers(reply, tickets); err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
		} else {
			require.Len(t, a.tickets, tickets)
			require.GreaterOrEqual(t, a.epoch, int64(0))
			for _, ticket := range a.tickets {
				require.GreaterOrEqual(t, ticket.wait, time.Duration(0))
				require.Contains(t, []int64{refused, final, waiting}, ticket.status)
				require.Equal(t, ticket.status == refused, ticket.number == 0)
			}
		}
		if went, err := decodeCancel(reply, tickets); err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
		} else {
			require.Len(t, went, tickets)
		}
		if s, err := decodeState(reply); err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
		} else {
			require.NotNil(t, s)
		}
	})
}

// anyReply makes some reply that go-redis could return out of raw bytes.
func anyReply(r *bytes.Reader, depth int) any {
	kind, err := r.ReadByte()
	if err != nil {
		return nil
	}
	n, _ := r.ReadByte()
	switch kind % 6 {
	case 0:
		return nil
	case 1, 2: // a list of integers, as replies are, each as wide as it says
		list := make([]any, n%32)
		for i := range list {
			width, _ := r.ReadByte()
			var v int64
			for range width % 9 {
				b, _ := r.ReadByte()
				v = v<<8 | int64(b)
			}
			list[i] = v
		}
		return list
	case 3: // a list of anything
		if depth == 0 {
			return nil
		}
		list := make([]any, n%16)
		for i := range list {
			list[i] = anyReply(r, depth-1)
		}
		return list
	case 4:
		text := make([]byte, n%64)
		_, _ = r.Read(text)
		return string(text)
	default:
		return int64(n)
	}
}
