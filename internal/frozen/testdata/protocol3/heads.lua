-- heads.lua: the calls of this ask, and the head of the queue, which other calls pass if it does not ask.

local grace = tonumber(ARGV[GRACE])
local asking = {} -- the calls of this ask

-- overdue returns for how long the head has not asked although its permits were there. It is below 0
-- before that moment, and nil if nobody waits. Other calls may have had these permits since. The permits
-- of a new head are there no earlier than those of the head before it.
local function overdue(l)
  if l.card == 0 then return end
  local place = head(l)
  local first, moment = callOf(place), l.meter.ahead(l, 0, costOf(place))
  if asking[first] then
    l.head, l.since, l.called = first, ceil(max(moment, at)), ''
  elseif first ~= l.head then
    l.head, l.since = first, ceil(max(moment, min(l.since, at)))
  elseif l.since > at and moment < l.since then
    l.since = ceil(max(moment, at))
  end
  return at - max(l.since, l.paused), place
end

-- askedAgain notes that a call has asked and has no turn. If the call is the head, its permits come later
-- than its forecast: other calls with its tag may have had them.
local function askedAgain(l, id, cost)
  if l.head == id then l.since, l.called = ceil(max(at, l.meter.ahead(l, 0, cost))), '' end
end

-- callHead notifies the process of the head that its turn may come sooner than its forecast said, once
-- until it asks.
local function callHead(l)
  if l.card == 0 or l.meter.tells then return end
  local place = head(l)
  local first = callOf(place)
  if asking[first] or l.called == first then return end
  l.called = first
  tell(l, 'overdue:' .. processOf(place))
end

-- passes is the moment from which other calls may have the permits of an overdue head: when a permit
-- would be lost, or after the grace at the latest.
local function passes(l)
  local over = max(l.since, l.paused) + grace
  return l.meter.lost and min(over, l.meter.lost(l)) or over
end

-- entitled is the moment at which a call, and all calls before it, have their permits. If others may have
-- the permits of an overdue head, or the process of the head is dead, that process loses its first
-- places. When its calls come back, their tags put them first again. If the next head is overdue as well,
-- a waiting call that asks has its permits; after the grace a new call has them, too. Otherwise a new
-- call is behind all waiting calls.
local function entitled(l, tag, cost)
  local late, first = overdue(l)
  local isDead = late and late > 0 and dead(l, processOf(first))
  if late and late > 0 and (at > passes(l) or isDead) then
    clear(l, processOf(first), asking, isDead)
    late = overdue(l)
  end
  if not late then return l.meter.ahead(l, 0, cost) end
  if late > 0 then
    callHead(l)
    if at > passes(l) and (tag or late > grace) then return at end
  end
  if not tag then return huge end
  return l.meter.ahead(l, before(l, tag), cost)
end

-- comesBack is the forecast that a waiting call gets. If the head of a paced limit is overdue, it is at
-- most a `lead` after others may have the head's permits, because callers ask before their forecast.
-- Limits of other kinds have many permits at one moment, and their calls have turns one after the other.
local function comesBack(l, lead, told)
  if not l.meter.lost then return told end
  local late, place = overdue(l)
  if not late or late <= 0 or asking[callOf(place)] then return told end
  local moment = passes(l) + lead
  return moment > at and min(told, moment) or told
end
