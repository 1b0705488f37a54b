package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// Severity says how bad it is what holds calls back.
type Severity string

// The severities, the worst first.
const (
	SeverityStop Severity = "stop" // no call goes through, or calls of a process fail
	SeveritySlow Severity = "slow" // calls wait, and fewer go through than were meant to
	SeverityLook Severity = "look" // calls wait in the queue, as they do at a limit, or nobody would make a call and none waits
	SeverityFine Severity = "fine" // nothing holds calls back
	SeverityIdle Severity = "idle" // no process has used the limit for ten minutes
)

// Severities lists them, the worst first.
var Severities = []Severity{SeverityStop, SeveritySlow, SeverityLook, SeverityFine, SeverityIdle}

// severity is how bad a reason is while so many calls are held back.
func (w Why) severity(held int64) Severity {
	switch w {
	case WhyAway, WhyNoWrites, WhyCorrupt, WhyKind, WhyVersion, WhyStopped, WhyPaused:
		return SeverityStop
	case WhyNobody, WhySlots, WhyUsedUp:
		if held > 0 {
			return SeverityStop
		}
		return SeverityLook
	case WhyHeldBy, WhySet, WhyDiffer:
		if held > 0 {
			return SeveritySlow
		}
		return SeverityLook
	case WhyIdle:
		return SeverityIdle
	case WhySilent:
		return SeverityLook
	case WhyQueue, WhyFlow:
		if held > 0 {
			return SeverityLook
		}
	case WhyAvailable, WhyBooked:
	}
	return SeverityFine
}

// title is a reason in a few words.
func (w Why) title(held int64) string {
	switch w {
	case WhyAway:
		return "Redis does not answer"
	case WhyNoWrites:
		return "Redis refuses to write"
	case WhyCorrupt:
		return "A key is corrupt"
	case WhyKind:
		return "Limits of two kinds"
	case WhyVersion:
		return "Two versions that cannot share"
	case WhyStopped:
		return "Stopped: calls fail"
	case WhyPaused:
		return "Paused"
	case WhyNobody:
		return "No process is alive"
	case WhySlots:
		return "All slots are held"
	case WhyHeldBy:
		return "Another limit holds it back"
	case WhyUsedUp:
		return "Used up"
	case WhySet:
		return "Set to a slower limit"
	case WhyDiffer:
		return "Processes disagree"
	case WhySilent:
		return "Heartbeats are late"
	case WhyFlow:
		return "One flow floods"
	case WhyQueue:
		if held > 0 {
			return "A queue"
		}
		return "Nothing waits"
	case WhyBooked:
		return "Calls are booked"
	case WhyIdle:
		return "Idle"
	}
	return "Nothing"
}

// mend says what to do about a reason, and the command for it. Both may be empty.
func (l *Look) mend(why Why, row *Row) (do, command string) {
	on := func(verb string, more ...string) string {
		key := row.Key
		if verb == "show" || verb == "top" {
			key = ""
		}
		return l.command(append(Words(verb, l.Name, key), more...)...)
	}
	switch why {
	case WhyAway:
		return "Check --redis (or FLEETPACE_REDIS_URL), and whether the server runs. " + fault.Docs + "outages.md says what each process does meanwhile. Look at Redis:", l.command("doctor")
	case WhyNoWrites:
		return fault.Docs + "outages.md says what each process does meanwhile. Look at Redis:", l.command("doctor")
	case WhyCorrupt:
		return "Look at the key in Redis. Without it the limit begins again as new.", ""
	case WhyKind, WhyVersion:
		return "Who uses which:", on("show")
	case WhyStopped:
		do := "When the provider serves calls again:"
		if all := row.State.StoppedTogether; all != nil {
			return do, l.command(append([]string{"resume"}, all...)...)
		}
		return do, on("resume")
	case WhyPaused:
		return "It ends by itself. To end it now:", on("resume")
	case WhyNobody:
		return "Start workers; if they run, compare their Redis URL and prefix. Who ran last:", on("show")
	case WhySlots:
		if holders := row.State.Holders; len(holders) > 0 {
			return "Slots come back when calls are done. To free the slots of the longest call, which may go on:",
				on("release", SlotID(holders[0].Process, holders[0].Number))
		}
	case WhyHeldBy:
		return "What holds that limit back:", l.command("why", l.beside(row))
	case WhyUsedUp:
		if row.slows() {
			return "It ends by itself. The configured limit is " + row.Own.String() + ". To end the override now:", on("reset")
		}
		return "It ends by itself. If the provider allows more than " + row.Limit + ", for example:", on("set", append([]string{"--to", row.more()}, row.rest()...)...)
	case WhySet:
		return "To end the override now:", on("reset")
	case WhyDiffer:
		return "Deploy one limit everywhere. Who has which:", on("show")
	case WhySilent:
		return "Ask again:", on("why")
	case WhyFlow:
		return "Which flows have their turns:", on("top", "--by", "flow")
	case WhyQueue:
		return "Whose calls they are:", on("top")
	case WhyBooked:
		if row.served {
			return "A caller that asks again with its id now has its turn at once.", ""
		}
		return "To run tasks of asynq now:", "asynq task runall --queue=QUEUE --state=retry"
	case WhyAvailable, WhyIdle:
	}
	return "", ""
}

// command is a command line of fleetpace.
func command(words, flags []string) string {
	return "fleetpace " + Quoted(slices.Concat(words, flags)...)
}

// Words is a verb of fleetpace with a limit and a key. A key that would read as a flag follows the limit and a slash.
func Words(verb string, n Name, key string) []string {
	switch {
	case key == "":
		return []string{verb, n.String()}
	case strings.HasPrefix(key, "-"):
		return []string{verb, n.String() + "/" + key}
	}
	return []string{verb, n.String(), key}
}

// more is the limit of a window with twice its permits.
func (row *Row) more() string {
	_, rest, _ := strings.Cut(row.Limit, "/")
	return fmt.Sprintf("%d/%s", 2*row.State.Limit.MaxBurst(), rest)
}

// rest is how long more permits are to last. A quota is the old one again in the next window, whenever the command is typed.
func (row *Row) rest() []string {
	if _, ends := row.State.Limit.Window(time.Now()); !ends.IsZero() {
		return []string{"--until", ends.UTC().Format(time.RFC3339)}
	}
	return []string{"--for", span(max(seconds(row.Wait), 1e9))}
}

func (s *Survey) command(words ...string) string { return command(words, s.flags) }

// Quoted is a part of a command line, with quotes where a shell would read a word as something else.
func Quoted(words ...string) string {
	words = slices.Clone(words)
	for i := range words {
		words[i] = quoted(words[i])
	}
	return strings.Join(words, " ")
}

// quoted is a word of a command line, in quotes if a shell would read it as something else.
func quoted(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:@%+,", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// answer fills in what follows from the most important reason.
func (l *Look) answer(a *Answer, first reason, row *Row, booked *Booked) {
	a.Key, a.Reason, a.Text, a.More = row.Key, first.why, first.text, first.more
	a.Held = held(row, booked, first.why)
	a.Title = first.why.title(a.Held)
	a.Severity = first.why.severity(a.Held)
	if h := row.State.Holders; a.Reason == WhySlots && a.Severity == SeverityStop && len(h) > 0 && !l.stuck(h) {
		a.Severity = SeverityLook // slots come back one after the other, and calls take them: the last one lately
	}
	a.Do, a.Command = l.mend(first.why, row)
}

// stuck is for how long no call takes a slot before the limit counts as standing still.
const stuck = 10 * time.Second

// worst returns the answer for the row of which something is worst.
func (l *Look) worst() (worst Answer) {
	if len(l.Rows) == 0 {
		worst = l.nobody()
		return worst
	}
	for i := range l.Rows {
		a := Answer{Limit: l.Name.String()}
		l.answer(&a, l.reasons(&l.Rows[i], nil)[0], &l.Rows[i], nil)
		if i == 0 || a.rank() < worst.rank() || a.rank() == worst.rank() && a.Held > worst.Held {
			worst = a
		}
	}
	return worst
}

// rank is the place of an answer's severity, from 0 for the worst.
func (a *Answer) rank() int {
	for i, s := range Severities {
		if a.Severity == s {
			return i
		}
	}
	return len(Severities)
}

// nobody is the answer for a limit that no process has used for ten minutes.
func (l *Look) nobody() Answer {
	a := Answer{Limit: l.Name.String(), Reason: WhyIdle, Text: "No process has used the limit for ten minutes, so no call waits for it."}
	if left := l.left; left.waiting+left.booked > 0 {
		a.Reason, a.Held = WhyNobody, left.waiting+left.booked
		a.Text = fmt.Sprintf("No process has used the limit for ten minutes, and %s booked: start workers if none runs.",
			count(a.Held, "call waits or is", "calls wait or are"))
	}
	a.Title, a.Severity = a.Reason.title(a.Held), a.Reason.severity(a.Held)
	if a.Reason == WhyNobody {
		a.Do, a.Command = l.mend(WhyNobody, &Row{})
	}
	return a
}
