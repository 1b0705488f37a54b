-- arguments.lua: what a caller sends about a limit, and the table of a limit with all that Redis stores.

-- arguments returns the table of a limit, and an error text if its arguments are wrong.
local function arguments(j)
  local kind, a, b, rank, known, version, reach, back, edges, clock = unpack(ARGV, HEAD + WIDTH * (j - 1) + 1, HEAD + WIDTH * j)
  local key, places, log, processes, booked, flows = unpack(KEYS, KEYED * (j - 1) + 1, KEYED * j)
  local l = {
    j = j, key = key, places = places, log = log, processes = processes, booked = booked, flows = flows,
    kind = kind, meter = METERS[kind], mine = '', myRank = tonumber(rank), plans = sub(rank, 1, 1) == '+', known = known, brought = tonumber(version),
    brings = reach, back = back, edges = edges, clock = tonumber(clock),
    version = 0, seen = 0, free = 0, part = 0, epoch = 0, rank = 0, setUntil = 0, paused = 0, held = 0, resumed = 0, virtual = 0, dense = 0,
    plain = '', last = '', run = '', limit = a .. ' ' .. b, a = tonumber(a), b = tonumber(b), own = '', reason = '', card = 0, bookings = 0, entries = 0,
  }
  local problem
  l.mine, a, b = l.limit, l.a, l.b
  if not l.meter then problem = 'BADARG kind: want p, q, r, s or w, got ' .. kind
  elseif not (finite(a) and a > 0 and a <= LONGEST) then problem = 'BADARG a: want a number above 0, at most 1e15, got ' .. match(l.mine, '%S*')
  elseif not (finite(b) and b >= (kind == 'q' and 0 or 1) and b <= LONGEST) then
    problem = 'BADARG b: want a number of at least 1, at most 1e15, got ' .. match(l.mine, '%S*$')
  elseif not (finite(l.myRank) and finite(l.brought) and finite(l.clock)) then
    problem = 'BADARG rank, version, clock: want numbers, got ' .. rank .. ', ' .. version .. ', ' .. clock
  end
  return l, problem
end

-- params reads "a b".
local function params(l, text)
  local a, b = match(text, '^(%S+) (%S+)$')
  l.a, l.b, l.limit = tonumber(a), tonumber(b), text
  return finite(l.a) and finite(l.b) and l.a > 0
end
