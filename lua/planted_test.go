package lua

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// planted are bugs that somebody could make: in a verb's script, a piece becomes another.
// An unsafe one is seen by the strict provider alone; the others break another promise, and
// only the comparison with the model sees them. seed is of a history that finds it.
var planted = []struct {
	what, verb, from, to string
	unsafe               bool
	seed                 uint64
}{
	{"a report counts before a moment that covers it", "settle", " or l.meter.refills and now < l.closed then", " then", false, 10},
	{"calls without any limit leave a debt", "settle", "used = min(used, max(0, ceil(l.meter.left(l))))", "used = used", false, 10},
	{"a report does not count after a moment that covered it", "settle", "l.meter.refills and now < l.closed then", "l.meter.refills and l.closed > 0 then", false, 360},
	{"all reports are covered", "settle", "l.meter.refills and now < l.closed then", "l.meter.refills then", false, 10},
	{"dead heads of a rolling limit hold others up one after the other", "ask", "if not moment and rounds == 1 then return 0 end", "", false, 17},
	{"dead heads of a limit with warm-up hold others up one after the other", "ask", "if before == 0 then return l.free + l.part end", "", false, 19},
	{"take spends nothing", "take", "part = part + permits * interval", "part = part", true, 15},
	{"take overfills the bucket", "take", "if free + part < full then\n        free = floor(full)", "if false then\n        free = floor(full)", false, 0},
	{"take does not see a clock that stepped", "take", "if seen > now or (now - seen > STEP or seen % 1 > 0) and clock ~= 0 and not (now - clock <= STEP) then break end", "", false, 8},
	{"take does not look at what is known", "take", "if f[1] ~= ARGV[k + 1] then break end", "", false, 2},
	{"take is not known as the last", "take", "ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. permits", "''", false, 39},
	{"take gives turns that are too far", "take", "if not (wait <= ahead and ahead >= 0) then break end", "", false, 15},
	{"take gives turns that are too late", "take", "if within then ahead = min(within, horizon) end", "", false, 15},
	{"the common path spends nothing", "ask", "part = part + count * cost * interval", "part = part", true, 2},
	{"the common path overfills the bucket", "ask", "if free + part < full then\n        free = floor(full)", "if false then\n        free = floor(full)", false, 0},
	{"the common path takes an old version for new", "ask", " and version >= brought) then break", ") then break", false, 66},
	{"the common path does not see a clock that stepped", "ask", "if seen > now or (now - seen > STEP or seen % 1 > 0) and clock ~= 0 and not (now - clock <= STEP) then break end", "", false, 8},
	{"the common path overtakes", "ask", "not (general and general[j]) and", "", false, 14},
	{"the common path is not known as the last", "ask", "asked .. ' ' .. spent[j]", "''", false, 12},
	{"the common path keeps the old fraction", "ask", "if part == was then", "if true then", false, 438},
	{"who joins the queue is before others", "ask", "local tag, n = max(q.seq + 1, floor(at)), 4 * k - 1", "local tag, n = q.seq - 1000, 4 * k - 1", false, queueSeeds},
	{"who joins the queue is told too early", "ask", "ceil(q.spent + q.total * q.a - at)), 1,", "ceil(q.spent + (q.total - cost) * q.a - at)), 1,", false, queueSeeds},
	{"who joins the queue is not counted", "ask", "q.total + cost, format('%.0f', tag), names[k]", "q.total, format('%.0f', tag), names[k]", false, queueSeeds},
	{"who joins the queue does not see that the head is late", "ask", "if at > q.since then return end", "", false, queueSeeds + 26},
	{"who joins the queue does not see a new head", "ask", "if not q or sub(q.first, 1, #q.head + 1) ~= q.head .. ':' then return end", "if not q then return end", false, queueSeeds + 360},
	{"who joins the queue joins a full one", "ask", "or most > 0 and q.card + count > most then return", "then return", false, queueSeeds + 17},
	{"who joins the queue joins it for after its deadline", "ask", "item and item.within and last - at > item.within or", "", false, queueSeeds + 3},
	{"who joins the queue twice has two places", "ask", "if place then return end", "", false, queueSeeds + 5},
	{"the short path passes by a pause", "ask", "(f[7] or '0') ~= '0' or ", "", false, queueSeeds + 143},
	{"the short path passes by shares", "leave", "(f[8] or '0') ~= '0' or ", "", false, queueSeeds + 12},
	{"the short path passes by the dead", "ask", "if beaten and not (tonumber(beaten) and tonumber(beaten) >= now - SILENT) then return end", "", false, queueSeeds + 158},
	{"the short path does not see a clock that stepped", "ask", "if seen > now or (now - seen > STEP or seen % 1 > 0) and clock ~= 0 and not (now - clock <= STEP) then return end", "", false, queueSeeds + 366},
	{"who quits the queue is still counted", "leave", "q.total = q.total - left", "", false, queueSeeds},
	{"the head quits the queue unseen", "leave", "not q or q.first == place then break", "not q then break", false, queueSeeds + 16},
	{"the moment of the next permit is not written", "ask", "if value ~= was[k] then", "if value ~= was[k] and k ~= 3 then", true, 0},
	{"a call pays for half of its permits", "ask", "advance(l, cost * l.a)\nend\n\nfunction paced.most", "advance(l, cost * l.a / 2)\nend\n\nfunction paced.most", true, 56},
	{"a bucket holds one permit too many", "ask", "return at - l.b * l.a end", "return at - (l.b + 1) * l.a end", true, 1282},
	{"a turn may be used for too long", "ask", "l.free + l.part + (l.b - cost) * l.a", "l.free + l.part + l.b * l.a", true, 2},
	{"a window's quota is one too many", "ask", "(l.used[k] or 0) + cost <= l.a and", "(l.used[k] or 0) + cost <= l.a + 1 and", false, 24},
	{"a call crosses the edge of a window", "ask", "ceil(moment) < l.edge[k + 1] - l.b", "moment <= l.edge[k + 1] + 1e5", false, 118},
	{"the next window's count is lost", "ask", "edge == l.after and l.usedAfter or", "", false, 22},
	{"a rolling window is too short", "ask", "moment + l.offset + l.b or 0)", "moment + l.offset + l.b / 2 or 0)", true, 33},
	{"a rolling window forgets too early", "ask", "if entry(text) > now - l.offset - l.b then break end", "if entry(text) > now - l.offset - l.b / 2 then break end", true, 33},
	{"warming up costs no more than being warm", "ask", "slope * (2 * high - above) / 2", "0", false, 4},
	{"a warming call pays for itself", "ask", "function warming.next(l, _, at) return max(at, l.free + l.part) end", "function warming.next(l, c, at) return max(at, l.free + l.part + c * l.a) end", false, 4},
	{"newcomers overtake", "ask", "if not tag then return huge end", "if not tag then return at end", false, 2},
	{"nobody passes over who does not come", "ask", "if at > passes(l) and (tag or late > grace) then return at end", "", false, 23},
	{"new calls pass over who is late", "ask", "if at > passes(l) and (tag or late > grace) then return at end", "if at > passes(l) then return at end", false, 86},
	{"permits of a head that is late are lost", "ask", "return l.meter.lost and min(over, l.meter.lost(l) + (at - now)) or over", "return over", false, 10},
	{"who stands behind a head that is late sleeps on", "ask", "return moment > at and min(told, moment) or told", "return told", false, 7},
	{"who stands behind a head that is late asks too early", "ask", "local moment = passes(l) + lead", "local moment = passes(l)", false, 7},
	{"others are told to come for a head that asks", "ask", "if not late or asking[callOf(place)] or late <= 0 and not silent(l, processOf(place)) then return told end", "if not late then return told end", false, 1},
	{"who was passed over stays", "ask", "late > 0 and (at > passes(l) or isDead) then", "late > 0 and isDead then", false, 5},
	{"the head has no longer horizon than others", "ask", "last = max(last, min(at + FARTHEST, now + AHEAD))", "", false, 203},
	{"the dead stay", "ask", "local isDead = late and late > 0 and dead(l, processOf(first))", "local isDead = false", false, 38},
	{"the dead stay at the head", "ask", "if not l.meter.tells then return bury(l) end", "if not l.meter.tells then return end", false, 80},
	{"the dead refuse calls", "ask", "if again then return wait(parts, item) end", "", false, 29},
	{"the living go with the dead", "ask", "(isDead[of] or of == process) and not", "not", false, 1},
	{"those who ask go with the silent", "ask", " and not asking[callOf(place)]", "", false, 7},
	{"a call waits at all of its limits", "ask", "if k ~= which or books then", "if books then", false, 1},
	{"a call waits for its own place", "ask", "max(l.seq, p.tag + ahead), nil\n", "max(l.seq, p.tag + ahead), l.newest\n", false, 1489},
	{"new calls are before those of a clock that was ahead", "ask", "l.virtual == 0 and SPREAD or 0", "l.virtual == 0 and 0 or 0", false, 38},
	{"limits do not agree", "ask", "if due == last then return due end", "return due", false, 5930},
	{"a pause is not seen", "ask", "p.l.meter.next(p.l, p.cost, last), p.l.paused)", "p.l.meter.next(p.l, p.cost, last))", false, 7},
	{"permits of others overflow", "ask", "if p.l.meter.overflows(p.l, due, others) and not bears then last = ahead > near and min(last, at + ahead) or at + near end", "", false, 1},
	{"parts of permits of others overflow", "ask", "(others and l.a or 0)", "0", false, 89},
	{"a cost above the burst is not refused", "ask", "if p.cost > most then", "if false then", false, 0},
	{"another server's data is believed", "ask", "local other = run ~= '' and l.run ~= '' and l.run ~= run", "local other = false", false, 38},
	{"lost data is a full bucket", "ask", "l.meter.remember(l, l.brings, other", "l.meter.remember(l, '', false and other", true, 526},
	{"turns that are out are forgotten with the data", "ask", "if unknown then atLeast(l, min(now + AHEAD, l.free + l.part + (stepped or huge))) end\nend\n\n-- record", "end\n\n-- record", false, 0},
	{"a clock that went back makes all wait", "ask", "if l.seen > now then return now - (l.brought", "if l.seen > now then return 0 * (l.brought", false, 2},
	{"a clock that jumped fills the buckets", "ask", "return l.clock > 0 and ahead > STEP and ahead or 0", "return 0", true, 1},
	{"turns go back twice", "leave", "ask, size = stays > 0 and format(", "ask, size = ask or format(", false, 14},
	{"who waits is late for a turn that comes back", "ask", "  sooner(l)\n  tellLeft(l)\n", "  tellLeft(l)\n", false, 371},
	{"an ask with turns in two windows gives back those of the last one", "ask", "~= k then l.lastCost, l.lastDue = 0, nil", "~= k then l.lastCost = 0", false, 197},
	{"turns of others go back", "leave", "one == who", "match(one, '^%S+') == match(who, '^%S+')", false, 1091},
	{"a place that is left stays", "leave", "if l.card > 0 and erase('ZREM', l.places, place) == 1 then", "if false then", false, 1},
	{"a place leaves with another's cost", "leave", "l.card - 1, l.total - cost", "l.card - 1, l.total - 1", false, 23},
	{"what was spent without Redis is forgotten", "settle", "  l.meter.spend(l, used, at)\n", "", false, 10},
	{"nobody waits for those who come back later", "settle", "l.meter.close(l, l.closed)", "l.meter.close(l, now)", false, 10},
	{"an estimate is the last report", "settle", "if used > cost or again then", "if used > cost then", false, 16},
	{"costs settle twice", "settle", "if record then call('ZREM', l.log, was) else", "if record then else", false, 1},
	{"what a forgotten call used beyond its cost is free", "settle", "if not record and used <= cost then", "if not record then", false, 43},
	{"a repeated report counts twice", "settle", "not record and call('ZSCORE', l.log, is)", "false", false, 1},
	{"a repeated report has no answer", "settle", "is) then return used - cost, true end", "is) then return nil end", false, 1},
	{"a repeated report corrects its flow again", "settle", "local changed = settled and not repeated", "local changed = settled", false, 1},
	{"shares count estimates", "settle", "shares().corrected(l, ARGV[i + 4], used - cost)", "l.news = l.news", false, 1},
	{"a flow's next call is before its last one", "settle", "last, to or 0, l.virtual", "to or 0, l.virtual", false, 1},
	{"all that was not used goes back", "settle", "-min(-micros, k and l.low[k].micros or huge)", "micros", false, 1},
	{"a refund is not remembered", "settle", "if k then correct(l.low, k, micros) end", "", false, 37},
	{"a surcharge counts where the bucket was full", "settle", "elseif micros > 0 then return end", "end", false, 34},
	{"an entry that lacks more stays before one that lacks less", "settle", "while micros < 0 and k > 1 and", "while false and", false, 1435},
	{"a pause leaves the bucket full", "pause", "l.held = l.held + l.meter.hold(l, l.paused)", "", false, 2},
	{"a pause ends a hard stop", "pause", "if not due then l.reason", "if true then l.reason", false, 13},
	{"a hard stop is a pause", "pause", "if every and not l.problem then l.reason", "if false then l.reason", false, 6},
	{"a shorter pause ends a longer one", "pause", "not l.problem and now + micros > l.paused", "not l.problem", false, 8},
	{"all come at once after a pause", "resume", "advance(l, -min(l.held, l.paused - now))", "advance(l, -l.held)", false, 2},
	{"turns at the end of a pause are given twice", "resume", "if not turnsOut then advance", "advance", false, 0},
	{"what a pause has taken goes back", "ask", "    l.part = free - l.free\n    l.last = ''", "    l.part = free - l.free", false, 1424},
	{"turns go back to a slower limit", "set", "  if a > l.a then l.last = '' end\n  if l.low", "  if l.low", false, 710},
	{"a new limit keeps the permits of the old", "set", "min((now - l.free - l.part) / l.a, l.b, b)", "(now - l.free - l.part) / l.a", false, 60},
	{"a new limit fills the bucket", "set", "local free = now - permits * a", "local free = now - b * a", true, 1735},
	{"a booking counts twice", "ask", "(tag > 0 and cost or 0) - (was > 0 and cost or 0)", "(tag > 0 and cost or 0)", false, 2},
	{"who comes back counts as if it was still to come", "ask", "k == which and books and p.tag or -p.tag", "k == which and p.tag or -p.tag", false, 2},
	{"a booking counts at all limits", "ask", "k == which and books and p.tag or -p.tag", "books and p.tag or -p.tag", false, 5},
	{"all wait for those who never come", "ask", "l.front = max(l.front, min(p.tag, max(l.seq, floor(at))))", "", false, 2},
	{"a turn moves virtual past bookings that are expected", "ask", "l.wanted > 0 and bookings().reached(l, item, p) or p.tag", "p.tag", false, 1},
	{"virtual waits for bookings that do not come", "ask", "or at - l.returned >= PATIENT then return p.tag", "then return p.tag", false, 1},
	{"a new call of a flow comes after all booked ones", "ask", "or p.new and at - l.returned", "or not p.tag and at - l.returned", false, 17},
	{"who comes after the front is before it", "ask", "l.seq = max(l.seq, l.front)", "", false, 818},
	{"a booking takes a place", "ask", "if k ~= which or books then", "if k ~= which then", false, 2},
	{"the tag is not found under the ID", "ask", "back = bookings().booked(l, item.id, p.cost)", "", false, 1},
	{"a call has its place of before, too", "ask", "if back then bookings().supersede(l, p.tag, item.call) end", "", false, 23},
	{"who comes back too late is before the calls of others", "ask", "if back then p.tag = overtaken(l, p.tag, p.cost, flow) end", "", false, 1},
	{"a booking outlives its turn", "ask", "drop(l, id, p.cost)\n  if l.bookings == 0", "if l.bookings == 0", false, 2},
	{"a call that misses its deadline has a place", "ask", "local most = item.id and item.latest or item.within", "local most = item.id and item.latest", false, 5},
	{"a turn is given for after the deadline", "ask", "if item.within then last = min(last, at + item.within) end", "", false, 16},
	{"a deadline counts from when the reply is there", "ask", "item.within = item.within - (at - clock)", "", false, 16},
	{"a turn that is too late is booked", "ask", "local late = most and latest - at > most\n", "local late = false\n", false, 1},
	{"a full queue takes one more call", "ask", "p.l.card + p.l.bookings >= most", "p.l.card + p.l.bookings > most", false, 19},
	{"all turns of an ask go back, although some were used", "ask", "giveBack(l, who, tonumber(keep) or 0)", "giveBack(l, who, 0)", false, 35},
	{"a call that is back finds its queue full", "ask", "not (p.old or p.back or", "not (p.old or", false, 45},
	{"a level is lowered to one permit more", "level", "was - to, at)", "was - to - 1, at)", false, 77},
	{"calls with IDs have no patience", "ask", "local books, told = item.id and latest - at > item.patience, latest", "local books, told = item.id, latest", false, 2},
	{"who waits is told that all bookings come back", "ask", "if item.id and not books then which", "if false then which", false, 2},
	{"calls without IDs wait for bookings", "ask", "item.id and function(l, tag, cost) return bookings().returning(l, tag, cost, item.patience) end or forecast", "function(l, tag, cost) return bookings().returning(l, tag, cost, item.patience or 0) end", false, 2},
	{"bookings live as long as their limit", "ask", "if l.bookings > 0 and l.latest < now then", "if false then", false, 5},
	{"a backlog of hours loses its tags", "ask", "floor(now - l.span - FORGET)", "floor(now - FORGET)", false, 13},
	{"a step of the clock ends bookings", "ask", "'paused', 'latest', 'returned'", "'paused', 'returned'", false, 23},
	{"bookings outlive their state", "ask", "erase('UNLINK', l.places, l.log, l.booked, l.flows)", "erase('UNLINK', l.places, l.log, l.flows)", false, 2},
	{"a call that is booked leaves its place behind", "leave", "left = leave(l, who, cost) and cost or 0", "", false, 11},
	{"a call that is let go loses its tag", "leave", "\n        bookings().book(l, id, cost, tag, bookings().returning(l, math.abs(tag), cost, 0))", "", false, 29},
	{"all flows are one", "ask", "local l, flow = p.l, item.flow or NOBODY", "local l, flow = p.l, NOBODY", false, 0},
	{"weights do not count", "ask", "max(l.meter.pace(l), LEAST_PACE) / weight", "max(l.meter.pace(l), LEAST_PACE)", false, 0},
	{"costs do not count", "ask", "floor(cost * max(l.meter", "floor(max(l.meter", false, 5},
	{"a flow hoards credit", "ask", "max(tonumber(s[1] or 0), l.virtual)", "tonumber(s[1] or 0)", false, 0},
	{"shares stand still", "ask", "l.virtual = max(l.virtual, min(tag, max(l.seq, floor(at))))", "", false, 0},
	{"a flow without a name is not charged for who waits", "ask", "      keepStretch(l, '', l.dense)\n", "", false, 8},
	{"the first one of a flow is not charged", "ask", "keepStretch(l, flow.name, l.virtual + share(l, costOf(place), flow.weight))", "", false, 0},
	{"nobody comes forward", "ask", "if not from or from >= tag or tag >= to + size or waitsBefore(l, flow.name, from, tag) then return tag end", "do return tag end", false, 20},
	{"debts that have ended keep a call back", "ask", "if not back and tag >= max(ends, l.dense) and", "if false and", false, 4},
	{"a call moves into a gap in which a call of its flow waits", "ask", " or waitsBefore(l, flow.name, from, tag)", "", false, 1},
	{"who comes forward leaves the gap to the next", "ask", "keepStretch(l, flow.name, ends, from + size, to + size)", "keepStretch(l, flow.name, ends, from, to)", false, 29},
	{"who comes forward keeps its place", "ask", "call('ZADD', l.places, 'XX', format('%.0f', from), place)", "", false, 29},
	{"places that are left are debts", "leave", "if l.virtual > 0 then shares().refund(l, who, score) end", "", false, 1},
	{"the dead leave their debts", "ask", "if isDead[of] and l.virtual > 0 then shares().refund(l, place, tonumber(places[k + 1])) end", "", false, 1},
	{"a call that is too late is charged", "ask", "if p.charged then shares().refund(p.l, p.place, p.tag) end", "", false, 5},
	{"an urgent call waits as others do", "ask", "if flow.urgent > 0 then return urgentTag(l, cost, flow.urgent) end", "", false, 0},
	{"urgent calls have all of the limit", "ask", "-URGENT - floor(begin + cost * pace / part)", "-URGENT", false, 1},
	{"debts last for ever", "ask", "l.virtual, l.dense = 0, 0\n  erase('UNLINK', l.flows)", "", false, 0},
	{"a call asks until it may pass a head that it has passed", "ask", "if again and moment - lead < at then return told end", "", false, 52},
	{"ties make the head late", "ask", "if l.head == id then l.since, l.called = ceil(max(at, l.meter.ahead(l, 0, cost))), '' end", "", false, 5},
	{"the head is late for permits of another limit", "set", "  anew(l, at)\n", "  l.head = '0'\n", false, 500},
	{"the head is late for permits that a pause held", "resume", "      anew(l, at)\n", "      l.head = '0'\n", false, 211},
	{"near costs are taken for the mean", "ask", "if rank <= NEAR_PLACES then return near(l, rank) end", "if rank <= NEAR_PLACES then return rank * l.total / l.card end", false, 4},
	{"who is booked does not expect others", "ask", "moment + TRUST * max(0,", "moment + 0 * max(0,", false, 5},
	{"who waited before is before all others", "ask", "if tag >= l.dense then return tag + size end", "do return tag + size end", false, 8},
	{"who may be near stays away", "ask", " and moment - at > patience and amongOthers", " and amongOthers", false, 29},
	{"a booking is not dropped", "leave", "if whole then bookings().drop(l, which, cost) end", "", false, 1},
	{"a slot too many is given", "ask", "local over = l.used + before + cost - l.a", "local over = l.used + before + cost - l.a - 1", true, slotSeeds + 2},
	{"a slot is never free again", "leave", "local since = release(l, who, l.clock)\n  if not since then return 0 end", "do return 0 end\n  local since = 0", false, slotSeeds},
	{"what asks again keeps its slot", "ask", "if asks and asks(", "if false and asks(", false, slotSeeds + 6},
	{"a repeat has another tag than its place", "ask", "p.tag = tonumber(p.placed or nil) or p.tag", "", false, 7},
	{"a late copy takes a slot", "ask", "if sent and sent > 0 and moment > sent and moment <= now then return nil, true end", "", false, slotSeeds + 141},
	{"another server knows who waits", "ask", "    forgetPlaces(l)\n", "", false, 38},
	{"a caller that is new hides a step of the clock", "ask", "l.blind and now - 0.5 or now", "now", false, 279},
	{"a limit whose keys have expired by a step of the clock is full", "ask", "if l.fresh and l.meter.refills and l.clock > 0 and now - l.clock > STEP then", "if false then", false, 119},
	{"another server knows who holds slots", "ask", "if l.meter.forget then l.meter.forget(l) end", "", false, slotSeeds + 1},
	{"gaps are flows that wait", "ask", "format('%.0f', -from), '<' .. name, format('%.0f', -to), '>' .. name)", "format('%.0f', from), '<' .. name, format('%.0f', to), '>' .. name)", false, 1},
	{"slots of the dead stay", "ask", "if beat and beat < 0 or not beat and", "if not beat and", false, slotSeeds + 43},
	{"slots of the living go", "ask", "if beat and beat < 0 or not beat and", "if beat or", true, slotSeeds + 2},
	{"slots are given at once after a loss", "ask", "l.till = max(l.till, ceil(from + UNSURE))", "", true, slotSeeds},
	{"who comes late closes the slots", "ask", "local from = unknown and at or min(at, l.epoch + way)", "local from = at", false, slotSeeds + 1},
	{"slots that are kept do not count", "leave", "slots.spend(l, tonumber(cost), since, id, what)", "", true, slotSeeds + 6},
	{"a slot is held while its call waits for the rate", "ask", "function slots.overflows() return true end", "function slots.overflows() return false end", false, slotSeeds + 6},
	{"who waits for a slot is overtaken", "ask", "function slots.ahead(l, before, cost)\n", "function slots.ahead(l, before, cost)\n  before = 0\n", false, slotSeeds},
	{"the dead are told that there is room", "ask", "if not told[process] and dead(l, process) then", "if false then", false, slotSeeds + 90},
	{"who is told of room is passed over at once", "leave", "  l.mean = l.mean == 0 and held or floor(l.mean + (held - l.mean) / 8)\n  sooner(l)", "  l.mean = l.mean == 0 and held or floor(l.mean + (held - l.mean) / 8)", false, slotSeeds + 640},
}

func TestPlantedBugsAreFound(t *testing.T) {
	client := still(t)
	prefix, all, sound := redistest.Prefix(t), texts, map[uint64]bool{}
	for _, bug := range planted {
		require.Equal(t, 1, strings.Count(all[bug.verb], bug.from), "%s: %q in %s", bug.what, bug.from, bug.verb)
		script := redis.NewScript(strings.Replace(all[bug.verb], bug.from, bug.to, 1))
		find := func(seed uint64) error {
			h := newHistory(seed, client, fmt.Sprint(prefix, seed), map[string]*redis.Script{bug.verb: script})
			h.alone = bug.unsafe
			defer func() { require.NoError(t, client.FlushAll(t.Context()).Err()) }() // its own
			return h.play()
		}
		if find(bug.seed) != nil {
			if !sound[bug.seed] { // else the seed would find anything
				h := newHistory(bug.seed, client, fmt.Sprint(prefix, "sound", bug.seed), nil)
				require.NoError(t, h.play(), "%s: the scripts without the bug differ from the model, too, at seed %d", bug.what, bug.seed)
				require.NoError(t, client.FlushAll(t.Context()).Err())
				sound[bug.seed] = true
			}
			continue
		}
		seed := bug.seed / slotSeeds * slotSeeds
		last := seed + 3000
		for ; seed < last && find(seed) == nil; seed++ {
		}
		if seed == last {
			t.Errorf("nothing finds: %s", bug.what)
		} else {
			t.Errorf("%s: seed %d finds it no more; write seed %d", bug.what, bug.seed, seed)
		}
	}
}
