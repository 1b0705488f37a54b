-- heads.lua: the calls of this ask, and the head of the queue that they pass if it does not come.

local grace = tonumber(ARGV[GRACE])
local asking = {} -- the calls of this ask

-- overdue is for how long the head has not asked though its permits were there: below 0 before that, nil
-- if nobody waits. Others may have had them since. Those of a new head are not there before those of
-- the head before it.
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

-- askedAgain notes that a call has asked in vain: if it is the head, its permits come later than it was
-- told. (Others with its tag may have had them.)
local function askedAgain(l, id, cost)
  if l.head == id then l.since, l.called = ceil(max(at, l.meter.ahead(l, 0, cost))), '' end
end

-- callHead tells the process of the head, once until it asks, that its turn may come sooner than it was
-- told.
local function callHead(l)
  if l.card == 0 or l.meter.tells then return end
  local place = head(l)
  local first = callOf(place)
  if asking[first] or l.called == first then return end
  l.called = first
  tell(l, 'overdue:' .. processOf(place))
end

-- passes is the moment from which permits of an overdue head are for others: when they would be lost,
-- at the latest after the grace.
local function passes(l)
  local over = max(l.since, l.paused) + grace
  return l.meter.lost and min(over, l.meter.lost(l)) or over
end

-- entitled is the moment at which a call, and all before it, have their permits. If the permits of an
-- overdue head are for others, or its process is dead, that process loses its first places: with
-- their tags its calls are first again. If those of the next head are for others, too, a call that
-- waits and asks has them; after the grace a new call has, too. A new call is behind all that wait.
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

-- comesBack is when a call that waits is to ask, which was told a moment: if the head of a paced limit is
-- overdue, a `lead` after its permits are for others at the latest, as callers ask before their moment.
-- Other limits have many permits at one moment, and the calls have their turns one after the other.
local function comesBack(l, lead, told)
  if not l.meter.lost then return told end
  local late, place = overdue(l)
  if not late or late <= 0 or asking[callOf(place)] then return told end
  local moment = passes(l) + lead
  return moment > at and min(told, moment) or told
end
