-- places.lua: the calls that wait at a limit, in the order of their tags. A tag is a moment
-- in micros, made unique: so the tags of a queue that was lost sort before those that are
-- given later. A place is "<process>:<number>:<cost>".

local SCAN_PLACES = 64

local function costOf(place) return tonumber(match(place, ':(%d+)$')) end
local function processOf(place) return match(place, '^([^:]*):') end

local function newTag(l)
  l.seq = max(l.seq + 1, floor(at))
  return l.seq
end

local function enter(l, tag, place, cost)
  if call('ZADD', l.places, 'NX', format('%.17g', tag), place) == 1 then
    l.card, l.total = l.card + 1, l.total + cost
  end
end

local function leave(l, place, cost)
  if l.card > 0 and call('ZREM', l.places, place) == 1 then
    l.card, l.total = l.card - 1, l.total - cost
    return true
  end
end

-- before is how many permits those before a call want: as many as its rank, at the mean
-- cost, but at least those of the head.
local function before(l, tag)
  if l.card == 0 then return 0 end
  if not tag then return l.total end
  local rank = call('ZCOUNT', l.places, '-inf', '(' .. format('%.17g', tag))
  if rank == 0 then return 0 end
  return max(rank * l.total / l.card, costOf(call('ZRANGE', l.places, 0, 0)[1]))
end

local function forecast(l, tag, cost)
  return max(at, l.paused, l.meter.next(l, cost, at), l.meter.ahead(l, before(l, tag), cost))
end

-- drop removes places from the head while `goes` says so, and returns whether one stays.
local function drop(l, goes)
  local n, heads = 0, call('ZRANGE', l.places, 0, SCAN_PLACES - 1, 'WITHSCORES')
  while heads[2 * n + 1] and goes(heads[2 * n + 1], tonumber(heads[2 * n + 2])) do
    l.total = l.total - costOf(heads[2 * n + 1])
    n = n + 1
  end
  if n > 0 then
    call('ZREMRANGEBYRANK', l.places, 0, n - 1)
    l.card = l.card - n
  end
  return n < SCAN_PLACES
end

-- overdue is how long ago the permits of the head were there; nil if none waits.
local function overdue(l)
  local head = l.card > 0 and call('ZRANGE', l.places, 0, 0)[1]
  return head and at - l.meter.ahead(l, 0, costOf(head)), head
end

-- bury lets the places of dead processes go, when one is at the head and has not come.
local function bury(l)
  local late, head = overdue(l)
  if not late or late <= 0 then return end
  local function dead(place)
    local beat = tonumber(call('ZSCORE', l.processes, processOf(place)) or 0)
    return beat < 0
  end
  if dead(head) then drop(l, dead) end
end

-- entitled is the moment by which those before a call and it itself could have had their
-- turns. Whoever asks is entitled to permits that the head has not asked for in a grace.
-- Newcomers stand behind those who wait.
local function entitled(l, tag, cost, grace)
  local late = overdue(l)
  if not late then return l.meter.ahead(l, 0, cost) end
  if late > grace then return at end
  if not tag then return huge end
  return l.meter.ahead(l, before(l, tag), cost)
end

-- passed notes the tag of a call that got a turn. Places that others have passed over for
-- a grace leave: nobody is there, or else it comes back with its tag, and is first.
local function passed(l, tag, grace)
  if tag then l.top = max(l.top, tag) end
  if now - l.markAt <= grace or l.card == 0 and l.mark == l.top then return end
  if l.card == 0 or drop(l, function(_, tag) return tag < l.mark end) then l.mark, l.markAt = l.top, now end
end
