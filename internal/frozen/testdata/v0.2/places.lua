-- places.lua: the calls that wait at a limit, in the order of their tags. A tag is a moment
-- in micros, made unique: so the tags of a queue that was lost sort before those that are
-- given later. A place is "<process>:<number>:<cost>", and ":<weight>:<flow>" where it
-- names one; the weight of an urgent call is 0.

local SCAN_PLACES, NEAR_PLACES = 64, 32

local refund -- see shares.lua

local function costOf(place) return tonumber(match(place, '^[^:]*:[^:]*:(%d+)')) end
local function processOf(place) return match(place, '^([^:]*):') end
local function callOf(place) return match(place, '^[^:]*:[^:]*') end
local function placeOf(asker, p) return asker.id .. ':' .. format('%.0f', p.cost) .. asker.suffix end

local function newTag(l)
  l.seq = max(l.seq + 1, floor(at))
  l.newest = l.seq
  return l.seq
end

local function enter(l, tag, place, cost)
  if call('ZADD', l.places, 'NX', format('%.17g', tag), place) == 1 then
    l.renews = l.renews or l.card == 0
    l.card, l.total, l.first, l.seq, l.newest = l.card + 1, l.total + cost, nil, max(l.seq, tag), nil
    l.sums = nil
  end
end

local function leave(l, place, cost)
  if l.card > 0 and call('ZREM', l.places, place) == 1 then
    l.card, l.total, l.first, l.sums = l.card - 1, l.total - cost, nil, nil
    return true
  end
end

-- supersede removes the places that a call had in another process, which may be dead: they have
-- its tag. Where flows are named, calls of several may have one tag, and the place stays.
local function supersede(l, tag, id)
  local text = format('%.17g', tag)
  for _, place in ipairs(l.card > 0 and call('ZRANGEBYSCORE', l.places, text, text) or {}) do
    if callOf(place) ~= id then leave(l, place, costOf(place)) end
  end
end

-- head is the first place, and its tag as a text.
local function head(l)
  if not l.first then l.first = call('ZRANGE', l.places, 0, 0, 'WITHSCORES') end
  return l.first[1], l.first[2]
end

-- near are the costs of the first so many places together, up to NEAR_PLACES of them.
local function near(l, count)
  if not l.sums then
    l.sums = { [0] = 0 }
    for k, place in ipairs(call('ZRANGE', l.places, 0, NEAR_PLACES - 1)) do l.sums[k] = l.sums[k - 1] + costOf(place) end
  end
  return l.sums[count]
end

-- before estimates the permits that places before a call want: the costs of the first NEAR_PLACES,
-- and for the n others n - sqrt(n) times the lower one of both mean costs. Too low is better: who
-- comes too early asks once more, who comes too late is passed over.
local function before(l, tag)
  if l.card == 0 then return 0 end
  if not tag or tag == l.newest then return l.total end
  local rank = call('ZCOUNT', l.places, '-inf', '(' .. format('%.17g', tag))
  if rank == l.card then return l.total end
  if rank == 0 or l.total == l.card then return rank end -- all want one
  if rank <= NEAR_PLACES then return near(l, rank) end
  local sum, others = near(l, NEAR_PLACES), rank - NEAR_PLACES
  return sum + (others - math.sqrt(others)) * min(sum / NEAR_PLACES, (l.total - sum) / (l.card - NEAR_PLACES))
end

local function forecast(l, tag, cost)
  return max(at, l.paused, l.meter.next(l, cost, at), l.meter.ahead(l, before(l, tag), cost))
end

-- overdue is for how long the head has not asked though its permits were there: below 0 before
-- that, nil if nobody waits. Others may have had them since. Those of a new head are not there
-- before those of the head before it.
local function overdue(l, asking)
  if l.card == 0 then return end
  local place = head(l)
  local first, moment = callOf(place), l.meter.ahead(l, 0, costOf(place))
  if asking[first] then
    l.head, l.since = first, ceil(max(moment, at))
  elseif first ~= l.head then
    l.head, l.since = first, ceil(max(moment, min(l.since, at)))
  elseif l.since > at and moment < l.since then
    l.since = ceil(max(moment, at))
  end
  return at - max(l.since, l.paused), place
end

-- askedAgain notes that a call has asked in vain: if it is the head, its permits come later than
-- it was told. (Others with its tag may have had them.)
local function askedAgain(l, id, cost)
  if l.head == id then l.since = ceil(max(at, l.meter.ahead(l, 0, cost))) end
end

-- sooner notes that permits came back: those of the head are there from now on at the earliest.
function sooner(l)
  if l.card == 0 then return end
  local place = head(l)
  if callOf(place) ~= l.head or l.since > at then
    l.head, l.since = callOf(place), ceil(max(at, l.meter.ahead(l, 0, costOf(place))))
  end
end

-- clear lets places of one process go that are not in `asking`: of the first ones. Those of the
-- dead are not charged to their flows.
local function clear(l, process, asking, isDead)
  local gone, places = {}, call('ZRANGE', l.places, 0, SCAN_PLACES - 1, 'WITHSCORES')
  for k = 1, #places, 2 do
    local place = places[k]
    if processOf(place) == process and not asking[callOf(place)] then
      gone[#gone + 1] = place
      l.total = l.total - costOf(place)
      if isDead then refund(l, place, tonumber(places[k + 1])) end
    end
  end
  if #gone > 0 then l.card, l.first, l.sums = l.card - call('ZREM', l.places, unpack(gone)), nil, nil end
end

local function dead(l, process) return tonumber(call('ZSCORE', l.processes, process) or 0) < 0 end

-- entitled is the moment at which a call, and all before it, have their permits. If the head is
-- overdue by more than the grace, or overdue and its process dead, that process loses its first
-- places: with their tags it is first again. If the next head is overdue by the grace, too,
-- whoever asks has the permits. A new call is behind all that wait.
local function entitled(l, tag, cost, grace, asking)
  local late, head = overdue(l, asking)
  local isDead = late and late > 0 and dead(l, processOf(head))
  if late and late > 0 and (late > grace or isDead) then
    clear(l, processOf(head), asking, isDead)
    late = overdue(l, asking)
  end
  if not late then return l.meter.ahead(l, 0, cost) end
  if late > grace then return at end
  if not tag then return huge end
  return l.meter.ahead(l, before(l, tag), cost)
end
