-- arguments.lua: what a caller sends about a limit, and the table of a limit with all that Redis stores.

-- The fields of the hash. The first NUMBERS are numbers, which are 0 where Redis does not have them; the
-- others are texts. `seenMicros` is when the limit was last used. It is half a micro less if a caller that had never used
-- the limit did so after a rest. Such a caller cannot tell a rest from a step of the clock ahead. The field `queue` packs
-- nine values. total: the permits that calls in the queue need.
-- seq: the highest tag. head: the first place, and the place whose process was notified last that it is
-- late. since: when the permits of the head were there. wanted: the permits of bookings that count.
-- front, span, returned: see bookings.lua. latest: when the last booked call is due back. The field
-- `steppedBack` is by how much the clock has stepped back in the last minute, the version that the state had
-- then, and when that minute is over. `closed` is until when all that is spent without Redis is counted: see settle.lua.
-- `leased` is until when no lease of slots is over.
-- `kept` is permits that were used before the limit became one of another kind, and until when they count. While the
-- limit in force is of another kind than its keys, or a lease holds slots, ODD is added to `protocol`: earlier scripts
-- refuse the state.
local FIELDS = { 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction', 'epoch', 'rank', 'setUntilMicros', 'pausedUntilMicros',
  'heldMicros', 'resumed', 'virtual', 'dense', 'plain', 'last', 'run', 'limit', 'own', 'reason', 'meter', 'queue', 'protocol', 'steppedBack', 'closed', 'kept', 'leased' }
local NUMBERS, ODD = 12, 1000

-- arguments returns the table of a limit, and an error text if its arguments are wrong.
local function arguments(j)
  local kind, a, b, rank, known, version, reach, _, _, clock = unpack(ARGV, HEAD + WIDTH * (j - 1) + 1, HEAD + WIDTH * j)
  local key, places, log, processes, booked, flows = unpack(KEYS, KEYED * (j - 1) + 1, KEYED * j)
  local l = {
    j = j, key = key, places = places, log = log, processes = processes, booked = booked, flows = flows,
    kind = sub(kind, 1, 1), form = kind == sub(kind, 1, 1) and '' or kind .. ' ', mine = '', myRank = tonumber(rank), known = known, brought = tonumber(version),
    brings = reach, clock = tonumber(clock),
    version = 0, seen = 0, free = 0, part = 0, epoch = 0, rank = 0, setUntil = 0, paused = 0, held = 0, resumed = 0, virtual = 0, dense = 0,
    plain = '', last = '', run = '', a = tonumber(a), b = tonumber(b), own = '', kept = '', keptTill = 0, reason = '', card = 0, bookings = 0, entries = 0,
  }
  local problem
  l.mine = l.form .. a .. ' ' .. b
  l.meter, l.limit, a, b = METERS[l.kind], l.mine, l.a, l.b
  if not l.meter then problem = 'BADARG kind: want p, q, r, s or w, got ' .. kind
  elseif not (finite(a) and a > 0 and a <= LONGEST) then problem = 'BADARG a: want a number above 0, at most 1e15, got ' .. match(l.mine, '(%S*) %S*$')
  elseif not (finite(b) and b >= (l.kind == 'q' and 0 or 1) and b <= LONGEST) then
    problem = 'BADARG b: want a number of at least 1, at most 1e15, got ' .. match(l.mine, '%S*$')
  elseif not (finite(l.myRank) and finite(l.brought) and finite(l.clock)) then
    problem = 'BADARG rank, version, clock: want numbers, got ' .. rank .. ', ' .. version .. ', ' .. clock
  end
  return l, problem
end

-- params reads "a b", and returns the form that a plan of another kind than the keys has before that: see KIND of
-- head.lua. It returns nil if these are not two numbers.
local function params(l, text)
  local form, a, b = match(text, '^(.-)(%S+) (%S+)$')
  l.a, l.b, l.limit = tonumber(a), tonumber(b), text
  return finite(l.a) and finite(l.b) and l.a > 0 and form or nil
end
