package fleet

import (
	"os/exec"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A shell reads a quoted name or key as one word.
func TestQuoted(t *testing.T) {
	for _, word := range []string{"openai", "tenants/a", "", "two words", `it's "$HOME" \ ` + "`id`", "-x;y|z&*?(", "ünï\tc"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+quoted(word)).Output()
		require.NoError(t, err)
		require.Equal(t, word, string(out))
	}
}

// A key that reads as a flag is no word of its own: -y would confirm a change of the limit.
func TestWords(t *testing.T) {
	n := Name{Group: "llm", Name: "calls"}
	for key, want := range map[string]string{"": "resume llm/calls", "acme": "resume llm/calls acme", "-y": "resume llm/calls/-y", "--for": "resume llm/calls/--for"} {
		require.Equal(t, want, Quoted(Words("resume", n, key)...))
		_, command := (&Look{Survey: &Survey{Name: n}}).mend(WhyPaused, &Row{Queue: Queue{Key: key}})
		require.Equal(t, "fleetpace "+want, command)
		require.Equal(t, "fleetpace "+want, (&Target{Name: n, Key: key, reader: &Reader{}}).command("resume"))
	}
}

// Each reason has a title and a severity. What is wrong has something to do about it.
func TestEachReasonSaysWhatToDo(t *testing.T) {
	look := &Look{Survey: &Survey{Name: Name{Name: "api"}}}
	for _, why := range []Why{WhyAway, WhyNoWrites, WhyCorrupt, WhyKind, WhyVersion, WhyStopped, WhyPaused, WhyNobody, WhySlots, WhyHeldBy, WhyUsedUp, WhySet, WhyDiffer, WhySilent, WhyFlow, WhyQueue} {
		row := &Row{Queue: Queue{Key: "acme", HeldBy: "other"}}
		row.State.Holders = []reserve.Holder{{Process: "~p", Number: 1, Slots: 1}}
		title, severity := why.title(1), why.severity(1)
		do, command := look.mend(why, row)
		require.NotEqual(t, "Nothing", title, why)
		require.NotEqual(t, SeverityFine, severity, why)
		require.NotEmpty(t, do, why)
		require.True(t, command != "" || why == WhyCorrupt, why)
		require.NotContains(t, command, " ~", "zsh looks for a user")
		require.NotRegexp(t, `(^|\s)docs/`, do, "a page is named by an address that opens")
	}
	for _, why := range []Why{WhyAvailable, WhyIdle, WhyBooked, WhyNobody} {
		require.NotEqual(t, SeverityStop, why.severity(0))
	}
}

// While others take slots, the process that keeps the most for long is named. One long call is nothing to name.
func TestSlotsThatOneProcessKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look := &Look{Survey: &Survey{Name: Name{Name: "api"}}}
		of := func(process string, slots int, ago time.Duration) reserve.Holder {
			return reserve.Holder{Process: process, Slots: slots, Since: time.Now().Add(-ago)}
		}
		for _, c := range []struct {
			says    string
			holders []reserve.Holder
		}{
			{"Meanwhile process b has held the same 3 for 2m0s.", []reserve.Holder{of("a", 2, 5*time.Minute), of("b", 2, 3*time.Minute), of("b", 1, 2*time.Minute), of("c", 9, time.Second)}},
			{"Meanwhile process a has held the same 4 for 5m0s.", []reserve.Holder{of("a", 4, 5*time.Minute), of("b", 4, time.Minute), of("c", 1, time.Second)}},
			{"ago.", []reserve.Holder{of("a", 1, time.Hour), of("b", 5, time.Minute), of("b", 1, time.Second)}},
			{"taken a slot for 1m0s.", []reserve.Holder{of("a", 3, time.Hour), of("b", 1, time.Minute)}},
		} {
			require.Regexp(t, regexp.QuoteMeta(c.says)+"$", look.lately(c.holders))
		}
	})
}

// A limit whose slots are all in use stands still only if no call has taken one for long.
func TestSlotsThatComeBackAreNotWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look := &Look{Survey: &Survey{Name: Name{Name: "api"}}}
		says := map[Severity]string{SeverityLook: "A call took a slot 2s ago.", SeverityStop: "No call has taken a slot for 30s."}
		for since, severity := range map[time.Duration]Severity{2 * time.Second: SeverityLook, 30 * time.Second: SeverityStop} {
			row := &Row{}
			row.State.Holders, row.State.Waiting = []reserve.Holder{{Slots: 1, Since: time.Now().Add(-time.Minute)}, {Slots: 1, Since: time.Now().Add(-since)}}, 3
			a := Answer{}
			look.answer(&a, reason{why: WhySlots}, row, nil)
			require.Equal(t, severity, a.Severity, "%v: %+v", since, a)
			require.Equal(t, says[severity], look.lately(row.State.Holders))
		}
		look.whole = 2 * time.Second // the holders were suspended, and go on
		row := &Row{}
		row.State.Holders, row.State.Waiting = []reserve.Holder{{Slots: 1, Since: time.Now().Add(-30 * time.Second)}}, 3
		a := Answer{}
		look.answer(&a, reason{why: WhySlots}, row, nil)
		require.Equal(t, SeverityLook, a.Severity)
		require.Equal(t, "No call has taken a slot for 30s, but all processes were silent until 2s ago.", look.lately(row.State.Holders))
	})
}

// The holder of a slot of serve is its caller, and the answer says when its lease ends.
func TestCallerHoldsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look := &Look{Survey: &Survey{Name: Name{Name: "api"}}}
		row := &Row{leases: map[string]time.Duration{"~a": 5200 * time.Millisecond}}
		longest := func(process, doing string) string {
			row.State.Holders = []reserve.Holder{{Process: process, Doing: doing, Since: time.Now().Add(-time.Minute)}}
			return look.longest(row)
		}
		require.Equal(t, ", the longest by the caller web-3/4711 for 1m0s; its lease ends in 5.2s unless the caller renews it", longest("~a", "http:web-3/4711/d41d8cd98f00b204e9800998ecf8427e"))
		require.Equal(t, ", the longest by a caller of serve for 1m0s (job-17); its lease ends in 5.2s unless the caller renews it", longest("~a", "job-17"))
		require.Equal(t, ", the longest by the caller web-3/4711 for 1m0s (job 17); its lease ends in 5.2s unless the caller renews it", longest("~a", "http/web-3/4711 job 17"))
		require.Equal(t, ", the longest by process p for 1m0s (http:job/17)", longest("p", "http:job/17"))
		require.Equal(t, ", the longest by process p for 1m0s", longest("p", ""))
	})
}

// Where calls failed for processes of another version that are gone, the two limits are of one kind, and the answer says so.
func TestAnotherVersionThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Process{ID: "p", Alive: true, Fails: time.Now(), Limit: "20/s burst 5"}
		look := &Look{Survey: &Survey{Name: Name{Name: "api"}, Limit: "20/s burst 5", Processes: []Process{p}}}
		of := look.unfit(look.Unfit())
		require.Equal(t, WhyVersion, of.why)
		require.Contains(t, of.text, "processes of another version used the limit until now.")
		require.Equal(t, "Calls succeed a few seconds later.", of.more)
	})
}
