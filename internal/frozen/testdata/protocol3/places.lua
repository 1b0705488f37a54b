-- places.lua: the calls that wait at a limit, in the order of their tags. A tag is a moment in micros,
-- made unique. So the tags of a lost queue sort before tags that are given later. A place is
-- "<process>:<number>:<cost>", and ":<weight>:<flow>" if it names a flow; the weight of an urgent call is
-- 0.

local NEAR_PLACES = 32

local function costOf(place) return tonumber(match(place, '^[^:]*:[^:]*:(%d+)')) end
local function processOf(place) return match(place, '^([^:]*):') end
local function callOf(place) return match(place, '^[^:]*:[^:]*') end

-- tell notes what happened to a limit; save publishes it.
local function tell(l, what)
  l.news = l.news or {}
  l.news[#l.news + 1] = what
end

-- tellLeft notifies waiting calls, once per script, that permits came back or that a call left its place
-- before them. Calls that wait for slots get messages of their own: see room.lua.
local function tellLeft(l)
  if l.card == 0 or l.meter.tells or l.leftTold then return end
  l.leftTold = true
  tell(l, 'left')
end

local function dead(l, process) return tonumber(call('ZSCORE', l.processes, process) or 0) < 0 end

local function leave(l, place, cost)
  if l.card > 0 and erase('ZREM', l.places, place) == 1 then
    l.card, l.total, l.first, l.sums = l.card - 1, l.total - cost, nil, nil
    return true
  end
end

-- head is the first place, and its tag as a text.
local function head(l)
  if not l.first then l.first = call('ZRANGE', l.places, 0, 0, 'WITHSCORES') end
  return l.first[1], l.first[2]
end

-- anew begins the grace of the head at a moment, when its permits no longer come as its forecast said.
local function anew(l, moment) l.head, l.since = '0', ceil(moment) end

-- sooner notes that permits came back: the permits of the head may be there from now on.
local function sooner(l)
  if l.card == 0 then return end
  local place = head(l)
  if callOf(place) ~= l.head or l.since > at then
    l.head, l.since = callOf(place), ceil(max(at, l.meter.ahead(l, 0, costOf(place))))
  end
end

-- near returns the sum of the costs of the first places, up to NEAR_PLACES of them.
local function near(l, count)
  if not l.sums then
    l.sums = { [0] = 0 }
    for k, place in ipairs(call('ZRANGE', l.places, 0, NEAR_PLACES - 1)) do l.sums[k] = l.sums[k - 1] + costOf(place) end
  end
  return l.sums[count]
end

-- before estimates the permits that the places before a call need. It adds the costs of the first
-- NEAR_PLACES. For the n others it adds n - sqrt(n) times the lower one of both mean costs. It is too low
-- on purpose: a call that asks too early only asks again, but a call that asks too late is passed.
-- that comes too early asks once more, and one that comes too late is passed over.
local function before(l, tag)
  if l.card == 0 then return 0 end
  if not tag or tag == l.newest then return l.total end
  local rank = call('ZCOUNT', l.places, '-inf', '(' .. format('%.17g', tag))
  if rank == l.card then return l.total end
  if rank == 0 or l.total == l.card then return rank end -- every call costs one permit
  if rank <= NEAR_PLACES then return near(l, rank) end
  local sum, others = near(l, NEAR_PLACES), rank - NEAR_PLACES
  return sum + (others - math.sqrt(others)) * min(sum / NEAR_PLACES, (l.total - sum) / (l.card - NEAR_PLACES))
end

-- newTag returns the tag for a new call.
local function newTag(l)
  l.seq = max(l.seq + 1, floor(at))
  l.newest = l.seq
  return l.seq
end

-- forecast is when a call and all calls before it will have had their turns. If the limit was set for a
-- time, the first call asks when that time is over, and its ask notifies all processes.
local function forecast(l, tag, cost)
  local others = before(l, tag)
  local moment = max(l.meter.next(l, cost, at), l.meter.ahead(l, others, cost))
  if others == 0 and moment > l.setUntil and l.setUntil > now then moment = l.setUntil end
  return max(at, l.paused, moment)
end
