package lua

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// newsOfHeads is a limit whose head may be late, and what its scripts publish.
type newsOfHeads struct {
	*testing.T
	*server
	client redis.UniversalClient
	news   *redis.PubSub
	limit  queuemodel.Limit
	now    float64
	calls  int
}

func listenToHeads(t *testing.T, limit queuemodel.Limit) *newsOfHeads {
	client := redistest.New(t).Client(t)
	s, news := listening(t, client, limit.Kind)
	return &newsOfHeads{T: t, server: s, client: client, news: news, limit: limit, now: startMicros}
}

func (h *newsOfHeads) as(process string, after time.Duration) queuemodel.Caller {
	h.now += float64(after.Microseconds())
	h.calls++
	return queuemodel.Caller{Now: h.now, Horizon: 0, Near: float64(lead.Microseconds()), Grace: 500000, Run: "run", Process: process, Serial: h.calls}
}

// ask asks for a call of a process, which is so much later than the last one.
func (h *newsOfHeads) ask(process string, after time.Duration, number int, tag float64, id, back string) queuemodel.Answer {
	limit := h.limit
	limit.Back = back
	item := queuemodel.Item{Count: 1, Number: number, ID: id, Patience: never, Latest: never, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}
	_, answers, err := h.Ask(h.as(process, after), []queuemodel.Limit{limit}, []queuemodel.Item{item})
	require.NoError(h, err)
	return answers[0]
}

// told is what was published since it was called last.
func (h *newsOfHeads) told() (all []string) {
	ctx, stop := context.WithTimeout(h.Context(), time.Minute)
	defer stop()
	require.NoError(h, h.client.Publish(ctx, h.server.client.(onChannel).channel, "end").Err())
	for {
		message, err := h.news.ReceiveMessage(ctx)
		require.NoError(h, err)
		if message.Payload == "end" {
			return all
		}
		all = append(all, strings.Split(strings.Fields(message.Payload)[1], ",")...)
	}
}

const hasTurn, hasPlace = 1, 0 // statuses

const lead = 5 * time.Millisecond // before a moment at which callers are to ask

// Whoever finds that the head is late tells its process, once until it asks. Calls behind it are told to
// ask when its permits are for others, and not before.
func TestALateHeadIsTold(t *testing.T) {
	h := listenToHeads(t, queuemodel.Limit{Kind: "p", A: second, B: 1})
	ms := time.Millisecond
	require.Equal(t, hasTurn, h.ask("first", 0, 1, 0, "", "").Status)
	head := h.ask("head", 0, 2, 0, "", "")
	other, last := h.ask("other", 0, 3, 0, "", ""), h.ask("last", 0, 4, 0, "", "")
	require.EqualValues(t, 2*second, other.Wait)
	require.EqualValues(t, (1030 * ms).Microseconds(), h.ask("other", 970*ms, 3, other.Tags[0], "", "").Wait)
	require.Empty(t, h.told(), "it may be about to ask")
	require.EqualValues(t, (490*ms + lead).Microseconds(), h.ask("other", 40*ms, 3, other.Tags[0], "", "").Wait)
	require.Equal(t, []string{"overdue:head"}, h.told())
	require.EqualValues(t, (480*ms + lead).Microseconds(), h.ask("last", 10*ms, 4, last.Tags[0], "", "").Wait)
	require.Empty(t, h.told(), "once")
	require.Equal(t, hasTurn, h.ask("head", 10*ms, 2, head.Tags[0], "", "").Status)
	require.Equal(t, hasPlace, h.ask("other", 0, 3, other.Tags[0], "", "").Status)
}

// Permits of a head that does not come are for others after the grace, or when they would be lost.
// Those who wait hear that its places are gone, and it is first again with its tag.
func TestPermitsPassALateHead(t *testing.T) {
	for what, test := range map[string]struct {
		limit queuemodel.Limit
		after time.Duration // the permits are there, others have them
	}{
		"slow":  {queuemodel.Limit{Kind: "p", A: second, B: 1}, 500 * time.Millisecond},
		"fast":  {queuemodel.Limit{Kind: "p", A: second / 50, B: 1}, 20 * time.Millisecond},
		"burst": {queuemodel.Limit{Kind: "p", A: second / 50, B: 10}, 200 * time.Millisecond},
		"long":  {queuemodel.Limit{Kind: "p", A: second / 50, B: 100}, 500 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			h := listenToHeads(t, test.limit)
			for n := range int(test.limit.B) {
				require.Equal(t, hasTurn, h.ask("first", 0, n, 0, "", "").Status)
			}
			interval := time.Duration(test.limit.A) * time.Microsecond
			head := h.ask("head", 0, 1, 0, "", "")
			other, last := h.ask("other", 0, 2, 0, "", ""), h.ask("last", 0, 3, 0, "", "")
			h.as("nobody", interval+test.after-time.Millisecond)
			if test.limit.B == 1 { // else there are permits for those behind it, too
				require.Equal(t, hasPlace, h.ask("other", 0, 2, other.Tags[0], "", "").Status)
				require.Equal(t, hasPlace, h.ask("last", 0, 3, last.Tags[0], "", "").Status)
			}
			require.NotContains(t, h.told(), "left")
			require.Equal(t, hasTurn, h.ask("other", 2*time.Millisecond, 4, other.Tags[0]+1000, "", "").Status)
			require.Contains(t, h.told(), "left")
			require.Equal(t, int64(0), h.client.ZRank(t.Context(), h.keys[1], "other:2:1").Val(), "the head has left")
			again := h.ask("head", 0, 1, head.Tags[0], "", "")
			require.Equal(t, head.Tags, again.Tags)
		})
	}
}

// Permits that come back, and a place that another process has taken over, are told, too.
func TestWhatComesBackIsTold(t *testing.T) {
	h := listenToHeads(t, queuemodel.Limit{Kind: "p", A: 10 * second, B: 1})
	h.ask("first", 0, 1, 0, "", "")
	serial := h.calls
	h.ask("waits", 0, 2, 0, "job", "")
	h.ask("waits", 0, 3, 0, "", "")
	require.Empty(t, h.told())
	h.ask("another", 0, 4, 0, "job", "")
	require.Equal(t, []string{"left"}, h.told(), "the place of the same job")
	h.ask("first", 0, 5, 0, "", "first "+strconv.Itoa(serial))
	require.Equal(t, []string{"left"}, h.told(), "a turn")
}
