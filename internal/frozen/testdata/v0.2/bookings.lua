-- bookings.lua: calls that are made later, perhaps by another process. A booking is kept
-- under an ID, "<id>:<cost>", and holds no permits: its score is its tag, or less than 0
-- where it does not count, as its call waits in the queue or at another limit.
--
-- `front` is the highest tag of a call with an ID that had its turn. Those before it that
-- are not back did not come in time: nobody behind waits for them, whatever became of them.
-- A new call that finds permits moves it only if no booking was back for PATIENT: a fleet
-- that is late once, as a whole, is still expected.

local FORGET, LATECOMERS, SCAN_BOOKINGS, PATIENT = 3600000000, 600000000, 64, 10000000

local function nameOf(id, cost) return format('%s:%.0f', id, cost) end
local function costOfBooking(name) return tonumber(match(name, ':(%d+)$')) end

local function tagOf(l, id, cost)
  local tag = l.bookings > 0 and call('ZSCORE', l.booked, nameOf(id, cost))
  return tag and math.abs(tonumber(tag)) or nil
end

-- drop ends a booking.
local function drop(l, id, cost)
  local name = nameOf(id, cost)
  local tag = l.bookings > 0 and call('ZSCORE', l.booked, name)
  if not tag then return end
  call('ZREM', l.booked, name)
  l.bookings = l.bookings - 1
  if tonumber(tag) > 0 then l.wanted, l.returned = l.wanted - cost, floor(at) end
end

-- had ends the booking of a call that has its turn, and lets nobody wait for those before it.
-- Tags that are given later are behind it, whatever the clock does; one from nowhere is not.
local function had(l, id, p)
  drop(l, id, p.cost)
  if l.bookings == 0 or not p.tag and at - l.returned < PATIENT then return end
  p.tag = p.tag or newTag(l)
  l.front = max(l.front, min(p.tag, max(l.seq, floor(at))))
  l.seq = max(l.seq, l.front)
end

-- forget lets bookings go that were to be back long ago: `span` is for how long after its
-- tag one was told to stay away, at the most.
local function forget(l)
  local old = floor(now - l.span - FORGET)
  if old <= 0 then return end
  local gone = call('ZRANGEBYSCORE', l.booked, '(0', format('%.0f', old), 'LIMIT', 0, SCAN_BOOKINGS)
  for _, name in ipairs(gone) do l.wanted = l.wanted - costOfBooking(name) end
  for _, name in ipairs(call('ZRANGEBYSCORE', l.booked, format('%.0f', -old), '(0', 'LIMIT', 0, SCAN_BOOKINGS)) do gone[#gone + 1] = name end
  if #gone > 0 then l.bookings = l.bookings - call('ZREM', l.booked, unpack(gone)) end
end

-- book keeps a tag under an ID; one below 0 does not count. The call is to be back by a
-- moment, wherever it is booked.
local function book(l, id, cost, tag, moment)
  l.latest = max(l.latest, ceil(moment + LATECOMERS))
  l.span = max(l.span, ceil(moment - math.abs(tag)))
  local name = nameOf(id, cost)
  local was = l.bookings > 0 and tonumber(call('ZSCORE', l.booked, name) or 0) or 0
  if was == tag then return end
  if was == 0 then forget(l) end
  if was > 0 and tag < 0 then l.returned = floor(at) end
  l.renews = l.renews or l.bookings == 0
  call('ZADD', l.booked, format('%.17g', tag), name)
  l.bookings = l.bookings + (was == 0 and 1 or 0)
  l.wanted = l.wanted + (tag > 0 and cost or 0) - (was > 0 and cost or 0)
end

-- expected is how many permits bookings before a tag want, of calls that are still to come.
local function expected(l, tag)
  if l.wanted <= 0 then return 0 end
  local counted = call('ZCOUNT', l.booked, '(0', '+inf')
  if counted == 0 then return 0 end
  return call('ZCOUNT', l.booked, '(' .. format('%.0f', l.front), tag and '(' .. format('%.17g', tag) or '+inf') * l.wanted / counted
end

-- returning is when a call with a tag has its turn, after the bookings before it. Only if that is
-- beyond its patience the new calls of other flows are added: there may be none.
local function returning(l, tag, cost, patience)
  local moment = max(at, l.paused, l.meter.next(l, cost, at), l.meter.ahead(l, before(l, tag) + expected(l, tag), cost))
  return l.virtual > 0 and tag and moment - at > patience and amongOthers(l, tag, moment) or moment
end
