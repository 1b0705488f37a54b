package reserve_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/lua"
)

// eventLog is what happened, in order of time. Things of the same moment stand in
// the order of their texts: the scheduler decides which came first.
type eventLog struct {
	start time.Time

	mu     sync.Mutex
	events []event
}

// event is put into words only when somebody reads it: most logs nobody reads.
type event struct {
	at     time.Duration
	format string
	args   []any
	text   string
}

func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event{at: time.Since(l.start), format: format, args: args})
}

func (l *eventLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.events {
		l.events[i].text = fmt.Sprintf(e.format, e.args...)
	}
	slices.SortStableFunc(l.events, func(a, b event) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return strings.Compare(a.text, b.text)
	})
	var b strings.Builder
	for _, e := range l.events {
		fmt.Fprintf(&b, "%12v  %s\n", e.at, e.text)
	}
	return b.String()
}

// book holds which numbers the line gave out, as its replies say. It is used
// with the server locked.
type book struct {
	plan    *plan
	finals  map[turnOf]bool   // permits that are final: they became it, and did not go back since
	byID    map[string]holder // the number that a ticket had last
	back    map[string]holder // the number of a ticket that went back last
	rows    map[string]row    // what quick takes gave whose replies did not arrive, by member and serial
	charged map[string]int64  // the serial with which a process came back
	gone    int64             // permits whose time had passed when their ticket asked again
	twice   []string          // tickets that got a second number while the first was good
}

type turnOf struct{ epoch, number int64 }

type holder struct {
	turnOf
	good time.Time // until then, on the server's clock
	call string    // that was given it: the member and the serial
}

// row is what a quick take gave: the permit before, with its moment, and how many.
type row struct {
	holder
	permits int64
}

func newBook(p *plan) *book {
	return &book{plan: p, finals: map[turnOf]bool{}, byID: map[string]holder{}, back: map[string]holder{}, rows: map[string]row{}, charged: map[string]int64{}}
}

var verbs = map[string]string{
	lua.Take.Hash(): "take", lua.Quick.Hash(): "quick", lua.Charge.Hash(): "charge", lua.Claim.Hash(): "claim", lua.Cancel.Hash(): "cancel", lua.Inspect.Hash(): "inspect",
}

// note enters a script call and its reply.
func (b *book) note(log *eventLog, process int, args []string, reply []byte, now time.Time, lost bool) {
	if len(args) < 4 || !strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") {
		return
	}
	sha := args[1]
	if strings.EqualFold(args[0], "EVAL") {
		sha = sha1Of(args[1])
	}
	keys, _ := strconv.Atoi(args[2])
	verb, argv := verbs[sha], args[3+keys:]
	values, err := integersOf(reply)
	if err != nil {
		log.add("redis p%d %s %v -> %v", process, verb, argv, err)
		return
	}
	mark := ""
	if lost {
		mark = " (lost)"
	}
	log.add("redis p%d %s %v -> %v%s", process, verb, argv, values, mark)
	switch verb {
	case "charge":
		b.charged[processOf(argv[memberArg])], _ = strconv.ParseInt(argv[memberArg+1], 10, 64)
		b.cameBack(argv[memberArg], now)
	case "quick": // of one line
		var epoch int64
		_, _ = fmt.Sscan(argv[quickEpoch], &epoch)
		if before, given := values[1], values[4]; before >= 0 {
			b.become(turnOf{epoch, before + given}, given)
			due := now.Add(time.Duration(values[2]) * time.Microsecond)
			b.rows[argv[quickMember]+" "+argv[quickSerial]] = row{holder{turnOf: turnOf{epoch, before}, good: due}, given}
			if serial, _ := strconv.ParseInt(argv[quickSerial], 10, 64); serial < b.charged[processOf(argv[quickMember])] {
				b.lapse(processOf(argv[quickMember]))
			}
		}
	case "take":
		b.repeated(argv, values, now)
		for i, at := 0, takeArgs; at+3 < len(argv); i, at = i+1, at+4 {
			b.grant(argv[at], argv[at+2], callOf(argv), values, i, now)
		}
	case "claim":
		for i, at := 0, claimArgs; at+1 < len(argv); i, at = i+1, at+2 {
			b.grant(argv[at], argv[at+1], callOf(argv), values, i, now)
		}
	case "cancel":
		for i, at := 0, cancelArgs; at+3 < len(argv); i, at = i+1, at+4 {
			if i < len(values) && values[i] == 1 {
				b.wentBack(argv[at], argv[at+1], argv[at+2], argv[at+3])
			}
		}
	}
}

// repeated notes a take that asks once more for what a quick take gave: it gets the same
// numbers, unless their time has passed.
func (b *book) repeated(argv []string, values []int64, now time.Time) {
	key := callOf(argv)
	row, ok := b.rows[key]
	if !ok {
		return
	}
	delete(b.rows, key)
	interval := time.Duration(float64(time.Second) / b.plan.rate)
	for i, at := 0, takeArgs; at+3 < len(argv); i, at = i+1, at+4 {
		cost, _ := strconv.ParseInt(argv[at], 10, 64)
		good := row.good.Add(time.Duration(b.plan.burst) * interval)
		row.number += cost
		row.good = row.good.Add(time.Duration(cost) * interval)
		if v := values[replyHeader+3*i:]; v[1] != row.number || values[0] != row.epoch {
			b.gone += cost
			if now.Before(good) {
				b.twice = append(b.twice, fmt.Sprintf("%s had %d, good for another %v, and got %d", key, row.number, good.Sub(now), v[1]))
			}
		}
	}
}

// cameBack notes that a process asks anew for what it could not ask again while its
// breaker was open: numbers whose replies were lost before that lapse unused.
func (b *book) cameBack(member string, now time.Time) {
	for id, had := range b.byID {
		if strings.HasPrefix(id, member+"-") {
			had.good = now
			b.byID[id] = had
		}
	}
	b.lapse(processOf(member))
}

// lapse notes that nobody asks again for what a process was given by quick takes whose
// replies did not arrive.
func (b *book) lapse(process string) {
	for key, row := range b.rows {
		if member, _, _ := strings.Cut(key, " "); processOf(member) == process {
			b.gone += row.permits
			delete(b.rows, key)
		}
	}
}

// heard notes that the reply to a command arrived.
func (b *book) heard(args []string) {
	if len(args) > 3 && verbs[args[1]] == "quick" {
		keys, _ := strconv.Atoi(args[2])
		argv := args[3+keys:]
		delete(b.rows, argv[quickMember]+" "+argv[quickSerial])
	}
}

// processOf is whose member that is.
func processOf(member string) string {
	process, _, _ := strings.Cut(member, "/")
	return process
}

// callOf names a call, and its copies; empty: it is not numbered, and each copy is a call.
func callOf(argv []string) string {
	if argv[memberArg+1] == "0" {
		return ""
	}
	return argv[memberArg] + " " + argv[memberArg+1]
}

func (b *book) grant(size, id, call string, values []int64, i int, now time.Time) {
	const final = 1
	if len(values) < replyHeader+3*i+3 {
		return
	}
	v := values[replyHeader+3*i:]
	cost, _ := strconv.ParseInt(size, 10, 64)
	t := turnOf{values[0], v[1]}
	if old, ok := b.back[id]; ok && old.turnOf == t && old.call == call && call != "" {
		return // a copy that comes late: nobody reads this
	}
	if had, ok := b.byID[id]; ok && (v[0] != final || had.turnOf != t) {
		if now.Before(had.good) {
			b.twice = append(b.twice, fmt.Sprintf("%s had %d, good for another %v, and got %d", id, had.number, had.good.Sub(now), t.number))
		}
		b.gone += cost
		delete(b.byID, id)
	}
	if v[0] == final {
		slack := time.Duration(float64(int64(b.plan.burst)-cost) / b.plan.rate * float64(time.Second))
		if v[2] == 0 { // it may have been due before, and nobody says when
			slack = 0
		}
		b.become(t, cost)
		b.byID[id] = holder{t, now.Add(time.Duration(v[2])*time.Microsecond + slack), call}
	}
}

// wentBack notes that the line has a number again: it may give it once more, also to the
// ticket that had it.
func (b *book) wentBack(size, id, epoch, number string) {
	cost, _ := strconv.ParseInt(size, 10, 64)
	var t turnOf
	t.epoch, _ = strconv.ParseInt(epoch, 10, 64)
	t.number, _ = strconv.ParseInt(number, 10, 64)
	if id != "" {
		had, ok := b.byID[id]
		if !ok {
			return // it waited, and was not final
		}
		t = had.turnOf
	}
	for ticket, had := range b.byID {
		if had.turnOf == t {
			b.back[ticket] = had
			delete(b.byID, ticket)
		}
	}
	for i := range cost {
		delete(b.finals, turnOf{t.epoch, t.number - i})
	}
}

// become notes that permits became final, perhaps once more.
func (b *book) become(last turnOf, cost int64) {
	for i := range cost {
		b.finals[turnOf{last.epoch, last.number - i}] = true
	}
}

// given is how many permits became final, and did not go back.
func (b *book) given() int64 { return int64(len(b.finals)) }

// integersOf reads a reply that is a list of integers.
func integersOf(reply []byte) ([]int64, error) {
	lines := strings.Split(strings.TrimSpace(string(reply)), "\r\n")
	if !strings.HasPrefix(lines[0], "*") {
		return nil, fmt.Errorf("%s", lines[0])
	}
	var values []int64
	for _, line := range lines[1:] {
		v, err := strconv.ParseInt(strings.TrimPrefix(line, ":"), 10, 64)
		if err != nil {
			continue // a text, of inspect
		}
		values = append(values, v)
	}
	return values, nil
}

func sha1Of(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
