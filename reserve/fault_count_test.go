package reserve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
)

// The test of the book: a number that went back is the line's again. Whoever gets it
// then has it, once; an old copy of the call that had it does not.
func TestFaultBookCountsWhatWentBack(t *testing.T) {
	take := func(serial int, id string, number, wait int) func(*booked) {
		return func(b *booked) { b.take(serial, id, number, wait) }
	}
	claim := func(id string, number int) func(*booked) {
		return func(b *booked) { b.claim(id, number) }
	}
	cancel := func(id string, number, went int) func(*booked) {
		return func(b *booked) { b.cancel(id, number, went) }
	}
	later := func(by time.Duration) func(*booked) { return func(b *booked) { b.now = b.now.Add(by) } }
	for _, c := range []struct {
		name        string
		calls       []func(*booked)
		given, gone int64
		twice       int
	}{
		// Seed 58: the turn was a microsecond away when the take was repeated, so the
		// Allow gave it back and asked again. A permit had overflowed meanwhile.
		{name: "and is given once more in part", given: 2, calls: []func(*booked){
			take(36, "a", 129, 0), later(431 * time.Millisecond), take(36, "a", 129, 1),
			later(3 * time.Millisecond), cancel("", 129, 1), later(time.Millisecond), take(38, "a", 130, 0),
		}},
		{name: "and is given once more to the same call", given: 2, calls: []func(*booked){
			take(36, "a", 129, 1), cancel("", 129, 1), take(38, "a", 129, 1),
		}},
		{name: "and is given to another call", given: 4, calls: []func(*booked){
			take(36, "a", 129, 9000), cancel("", 129, 1), take(38, "b", 129, 9000), take(39, "a", 131, 9000),
		}},
		{name: "by its ID", given: 2, calls: []func(*booked){
			take(36, "a", 129, 9000), cancel("a", 0, 1), take(38, "a", 131, 9000),
		}},
		{name: "by its ID, while it waited", given: 0, calls: []func(*booked){cancel("a", 0, 1)}},
		{name: "and is not given again", given: 0, calls: []func(*booked){
			take(36, "a", 129, 0), cancel("", 129, 1),
		}},
		{name: "and a copy of the call comes late", given: 0, calls: []func(*booked){
			take(36, "a", 129, 9000), cancel("", 129, 1), take(36, "a", 129, 9000),
		}},
		{name: "and is claimed once more", given: 2, calls: []func(*booked){
			claim("a", 129), cancel("a", 0, 1), claim("a", 129),
		}},
		{name: "but did not go back", given: 2, calls: []func(*booked){
			take(36, "a", 129, 0), cancel("", 129, 0), take(36, "a", 129, 0),
		}},
		{name: "but was kept, and is given to another call", given: 2, calls: []func(*booked){
			take(36, "a", 129, 0), take(37, "b", 129, 0),
		}},
		{name: "but was kept, and the call gets another", given: 4, gone: 2, twice: 1, calls: []func(*booked){
			take(36, "a", 129, 9000), take(37, "a", 131, 9000),
		}},
		{name: "but was kept too long", given: 4, gone: 2, calls: []func(*booked){
			take(36, "a", 129, 9000), later(time.Second), take(37, "a", 131, 9000),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &booked{book: newBook(&plan{rate: 39, burst: 2}), now: time.Now()}
			b.log.start = b.now
			for _, call := range c.calls {
				call(b)
			}
			require.Equal(t, c.given, b.book.given(), "given")
			require.Equal(t, c.gone, b.book.gone, "too late")
			require.Len(t, b.book.twice, c.twice)
		})
	}
}

// booked is a book and what is entered in it: calls of cost 2, as scripts reply to them.
type booked struct {
	log  eventLog
	book *book
	now  time.Time
}

const bookedEpoch = 946684800006504

func (b *booked) take(serial int, id string, number, wait int) {
	b.note(lua.Take.Hash(), fmt.Sprint("1000000 2 0 ", id, " 0"), serial,
		fmt.Sprint(bookedEpoch, " 0 0 1 0 0 0 0 0 0 1000000 0 2 1 ", number, " ", wait))
}

func (b *booked) claim(id string, number int) { // without a serial, as they are
	b.note(lua.Claim.Hash(), "1000000 2 "+id, 0, fmt.Sprint(bookedEpoch, " 0 0 1 0 0 0 0 0 0 1000000 0 2 1 ", number, " 9000"))
}

func (b *booked) cancel(id string, number, went int) {
	b.book.note(&b.log, 0, append(strings.Fields(
		fmt.Sprint("EVALSHA ", lua.Cancel.Hash(), " 0 25641 2 0 0 0 0 process 37 2")),
		id, fmt.Sprint(bookedEpoch), fmt.Sprint(number)), bookedReply(fmt.Sprint(went)), b.now, false)
}

func (b *booked) note(sha, rest string, serial int, reply string) {
	b.book.note(&b.log, 0, strings.Fields(fmt.Sprint("EVALSHA ", sha, " 0 25641 2 0 0 0 0 process ", serial, " ", rest)),
		bookedReply(reply), b.now, false)
}

func bookedReply(values string) []byte {
	fields := strings.Fields(values)
	return []byte(fmt.Sprintf("*%d\r\n:%s\r\n", len(fields), strings.Join(fields, "\r\n:")))
}
