-- bookings.lua: calls that are made later, perhaps by another process. A booking is stored under an ID,
-- "<id>:<cost>", and holds no permits. Its score is its tag. A score below 0 does not count: that call
-- waits in the queue or at another limit.
--
-- `front` is the highest tag of a call with an ID that had its turn. Bookings before it did not come back
-- in time, so they no longer count. A new call that finds permits moves `front` only if no booked call
-- has come back for PATIENT. So a fleet is still expected if it is late once, as a whole.

local bookings = once(function()

local FORGET, LATECOMERS, SCAN_BOOKINGS, PATIENT, TRUST = 3600000000, 600000000, 64, 10000000, 0.7

local function nameOf(id, cost) return format('%s:%.0f', id, cost) end

-- booked returns the tag under an ID, or nil if there is no booking. A tag below 0 does not count.
local function booked(l, id, cost) return l.bookings > 0 and tonumber(call('ZSCORE', l.booked, nameOf(id, cost)) or nil) or nil end

-- drop ends a booking.
local function drop(l, id, cost)
  local tag = booked(l, id, cost)
  if not tag then return end
  erase('ZREM', l.booked, nameOf(id, cost))
  l.bookings = l.bookings - 1
  if tag > 0 then l.wanted, l.returned = l.wanted - cost, floor(at) end
end

-- had ends the booking of a call that has its turn. Calls behind it no longer wait for bookings before
-- it. Later tags are behind it, even if the clock steps back. A tag that a client has made up moves
-- `front` no further than to now.
local function had(l, id, p)
  drop(l, id, p.cost)
  if l.bookings == 0 or p.new and at - l.returned < PATIENT then return end
  p.tag = p.tag or newTag(l)
  l.front = max(l.front, min(p.tag, max(l.seq, floor(at))))
  l.seq = max(l.seq, l.front)
end

-- reached is how far `virtual` moves with the turn of a call: not beyond the next booking that is expected, if booked
-- calls come back. Otherwise all bookings before the tag would count as late, and their calls would lose their order.
local function reached(l, item, p)
  if not p.tag or item.id and not p.new or at - l.returned >= PATIENT then return p.tag end
  local from = format('(%.0f', max(l.front, l.virtual - 1))
  return min(p.tag, tonumber(call('ZRANGEBYSCORE', l.booked, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or nil) or p.tag)
end

-- forget removes bookings that were due back long ago. `span` is the longest time from the tag of a
-- booking until it was due back.
local function forget(l)
  local old = floor(now - l.span - FORGET)
  if old <= 0 then return end
  local gone = call('ZRANGEBYSCORE', l.booked, '(0', format('%.0f', old), 'LIMIT', 0, SCAN_BOOKINGS)
  for _, name in ipairs(gone) do l.wanted = l.wanted - tonumber(match(name, ':(%d+)$')) end
  for _, name in ipairs(call('ZRANGEBYSCORE', l.booked, format('%.0f', -old), '(0', 'LIMIT', 0, SCAN_BOOKINGS)) do gone[#gone + 1] = name end
  if #gone > 0 then l.bookings = l.bookings - erase('ZREM', l.booked, unpack(gone)) end
end

-- book stores a tag under an ID. The call is due back by a moment, wherever it is booked.
local function book(l, id, cost, tag, moment)
  l.latest = max(l.latest, ceil(moment + LATECOMERS))
  l.span = max(l.span, ceil(moment - math.abs(tag)))
  local was = booked(l, id, cost) or 0
  if was == tag then return end
  if was == 0 then forget(l) end
  if was > 0 and tag < 0 then l.returned = floor(at) end
  l.renews = l.renews or l.bookings == 0
  call('ZADD', l.booked, format('%.17g', tag), nameOf(id, cost))
  l.bookings = l.bookings + (was == 0 and 1 or 0)
  l.wanted = l.wanted + (tag > 0 and cost or 0) - (was > 0 and cost or 0)
end

-- expected returns how many permits the bookings before a tag need, for calls that have not come back
-- yet.
local function expected(l, tag)
  if l.wanted <= 0 then return 0 end
  local counted = call('ZCOUNT', l.booked, '(0', '+inf')
  if counted == 0 then return 0 end
  return call('ZCOUNT', l.booked, '(' .. format('%.0f', l.front), tag and '(' .. format('%.17g', tag) or '+inf') * l.wanted / counted
end

-- supersede removes the places that a call had in another process, which may be dead: these places have
-- its tag. If flows are named, calls of several flows may have the same tag, so the place stays.
local function supersede(l, tag, id)
  local text = format('%.17g', tag)
  for _, place in ipairs(l.card > 0 and l.virtual == 0 and call('ZRANGEBYSCORE', l.places, text, text) or {}) do
    if callOf(place) ~= id and leave(l, place, costOf(place)) then tellLeft(l) end
  end
end

-- amongOthers returns when a booked call is due back if other flows wait, too. New calls of these flows
-- go before it: if all weights are equal, one of each flow for each turn of its own flow. Only flows that
-- expect more than one call count. Only TRUST of that delay counts, as the other flows may have no more
-- calls by then.
local function amongOthers(l, tag, moment)
  local flows = tag > l.virtual and call('ZCOUNT', l.flows, '(' .. format('%.0f', l.virtual + shares().share(l, 1, 1)), '+inf') or 0
  return flows < 2 and moment or moment + TRUST * max(0, at + (tag - l.virtual) * flows - moment)
end

-- returning is when a call with a tag has its turn, after the bookings before it. The new calls of other
-- flows are added only if that is beyond its patience, as there may be none.
local function returning(l, tag, cost, patience)
  local moment = max(at, l.paused, l.meter.next(l, cost, at), l.meter.ahead(l, before(l, tag) + expected(l, tag), cost))
  return l.virtual > 0 and tag and moment - at > patience and amongOthers(l, tag, moment) or moment
end

return { booked = booked, drop = drop, had = had, reached = reached, book = book, returning = returning, supersede = supersede }
end)
