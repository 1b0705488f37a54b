-- shares.lua: fair shares, by start-time fair queueing. A call may name its flow: a tenant, or an
-- account. Then its tag is where its flow's share begins: the end of the last call of the flow, but not
-- before `virtual`. `virtual` is the highest tag that had a turn, but it passes no booking that is
-- expected: see reached in bookings.lua. So each waiting flow gets turns by its
-- weight, however many of its calls wait. Tags are moments if flows are named, too: a permit of a flow
-- with weight 1 takes as long as a permit of the limit. If no flow was named since the queue was empty,
-- `virtual` is 0, and nothing of this file applies. All debts end when the queue is empty and the last forecast
-- has passed: until then, calls of several limits may wait at another one.
--
-- Calls that waited before a flow was named have dense tags, a micro or more apart, up to `dense`. Among
-- them, a call of a flow has the tag of the waiting call after which its share begins. Shares cannot be
-- finer there, so urgent calls have a turn between any two of these calls.
--
-- The sorted set `flows` has up to five entries per flow. "=<flow>" is where its last call ends.
-- "<<flow>" and "><flow>" are the ends of a gap. Places that calls left make the gap; the flow's calls
-- behind it move into it when they ask again. "~<flow>" is where its last
-- call ends that came back too late. "^<flow>" is behind the tag of its last call whose cost is settled.
-- "!" is until when urgent calls have used their part, beyond all tags. All but "=" are below 0, so that only
-- these count as flows that wait. Entries that `virtual` has passed are removed.

local shares = once(function()

local LEAST_PACE, MOST_SHARE, URGENT, BEFORE_ALL = 1000, 1e13, 4e15, 1e14
local NOBODY = { weight = 1, name = '', urgent = 0 } -- the flow of calls that name no flow

-- flowOf is the flow of a place, which says ":<weight>:<flow>" at its end.
local function flowOf(place)
  local weight, name = match(place, '^[^:]*:[^:]*:[^:]*:([^:]*):(.*)$')
  return weight and { weight = tonumber(weight), name = name } or NOBODY
end

-- share is the stretch of tags that a call takes up.
local function share(l, cost, weight)
  return max(1, min(MOST_SHARE, floor(cost * max(l.meter.pace(l), LEAST_PACE) / weight)))
end

-- stretch reads where the last call of a flow ends, and its gap; nil if it has none.
local function stretch(l, name)
  local s = call('ZMSCORE', l.flows, '=' .. name, '<' .. name, '>' .. name)
  local ends, from, to = max(tonumber(s[1] or 0), l.virtual), max(-tonumber(s[2] or 0), l.virtual), -tonumber(s[3] or 0)
  if to > from then return ends, from, to end
  return ends
end

-- keepStretch writes what stretch reads. A gap that reaches to the end is dropped.
local function keepStretch(l, name, ends, from, to)
  if from and to >= ends then ends, from = from, nil end
  if from and from < to then
    call('ZADD', l.flows, format('%.0f', ends), '=' .. name, format('%.0f', -from), '<' .. name, format('%.0f', -to), '>' .. name)
  else
    call('ZADD', l.flows, format('%.0f', ends), '=' .. name)
    call('ZREM', l.flows, '<' .. name, '>' .. name)
  end
  l.charged = true
end

-- refund makes a gap in a flow, or widens it, when a call leaves its place.
local function refund(l, place, tag)
  if l.virtual == 0 or tag < l.dense then return end
  local flow = flowOf(place)
  if flow.weight == 0 then return end -- urgent
  local size = share(l, costOf(place), flow.weight)
  local ends, from, to = stretch(l, flow.name)
  if ends <= max(l.virtual, tag) then return end
  local first = max(min(from or tag, tag), l.virtual)
  keepStretch(l, flow.name, ends, first, first + size + (from and to - from or 0))
end

local LAST_TAG, FORGET_FLOWS, SCAN_DENSE, SCAN_GAP = 8e15, 64, 256, 64

-- after returns the tag that is `size` later. Among dense tags it is the tag of a later place: so many
-- permits of calls that name no flow are before it, and at least one.
local function after(l, tag, size)
  if tag >= l.dense then return tag + size end
  local permits = max(1, size / share(l, 1, 1))
  local places = call('ZRANGEBYSCORE', l.places, format('%.0f', tag), '(' .. format('%.0f', l.dense), 'WITHSCORES', 'LIMIT', 0, SCAN_DENSE)
  for k = 1, #places, 2 do
    if permits <= 0 then return max(floor(tonumber(places[k + 1])), tag + 1) end
    if flowOf(places[k]) == NOBODY then permits = permits - costOf(places[k]) end
  end
  return l.dense + size
end

-- charge stores where the last call of its kind ends, and returns the tag of this call.
local function charge(l, member, score, tag)
  call('ZADD', l.flows, format('%.0f', score), member)
  l.charged = true
  return min(tag, LAST_TAG)
end

-- beginShares lets flows count from now on. Calls that wait already belong to the flow without a name,
-- except the first call, if it names its own flow.
local function beginShares(l, tag)
  if l.virtual > 0 then return end
  l.virtual = max(1, floor(at))
  if l.card > 0 then
    local place, first = head(l)
    local flow = flowOf(place)
    l.virtual = max(1, floor(tonumber(first)))
    if l.card > 1 or flow == NOBODY then
      l.dense = max(l.seq + 1, l.virtual)
      keepStretch(l, '', l.dense)
    end
    if flow ~= NOBODY and flow.weight > 0 then keepStretch(l, flow.name, l.virtual + share(l, costOf(place), flow.weight)) end
  elseif tag then
    l.virtual = min(tag, l.virtual)
  end
end

-- urgentTag gives an urgent call its tag: before all others, within the part of the limit that urgent
-- calls have together. They are charged to that part, and not to their flows. The part is counted in time, which
-- stands still in a pause: `virtual` does not move while many flows have their first turns. Calls that wait at
-- another limit may come with tags below `virtual`, but not by BEFORE_ALL micros.
local function urgentTag(l, cost, part)
  local pace, clock, tag = max(1, l.meter.pace(l)), max(at, l.paused), l.virtual
  local begin = max(clock, -tonumber(call('ZSCORE', l.flows, '!') or 0) - URGENT)
  if begin > clock then
    local flows = call('ZCOUNT', l.flows, '(' .. format('%.0f', l.virtual), '+inf')
    tag = after(l, tag, max(1, floor((begin - clock) * max(1, LEAST_PACE / pace) * (1 - part) / max(1, flows))))
  else
    tag = max(1, tag - BEFORE_ALL)
  end
  return charge(l, '!', -URGENT - floor(begin + cost * pace / part), tag)
end

-- fairTag gives a new call its tag, and charges its flow. The first calls of flows without debt keep the
-- order in which they came: a micro per place behind `virtual`, within their stretch.
local function fairTag(l, cost, flow, settles)
  if flow.urgent > 0 then return urgentTag(l, cost, flow.urgent) end
  local size = share(l, cost, flow.weight)
  local ends, from, to = stretch(l, flow.name)
  local tag = ends == l.virtual and ends + min(l.card, size - 1) or ends
  if settles then call('ZADD', l.flows, format('%.0f', -tag - 1), '^' .. flow.name) end
  keepStretch(l, flow.name, after(l, ends, size), from, to)
  return min(tag, LAST_TAG)
end

-- overtaken is the tag of a call that comes back from a booking after `virtual` has passed its own tag.
-- It is behind the calls of its flow that came back late earlier. With their own tags all of them would
-- be before the calls of other flows. Calls of slots keep their tags: these are close together as long as
-- it is not known how long calls take.
local function overtaken(l, tag, cost, flow)
  if l.virtual <= tag or flow.urgent > 0 or l.meter.tells then return tag end
  tag = max(l.virtual, -tonumber(call('ZSCORE', l.flows, '~' .. flow.name) or 0))
  return charge(l, '~' .. flow.name, -after(l, tag, share(l, cost, flow.weight)), tag)
end

-- waitsBefore reports whether a call of a flow waits between two tags. It looks at the first SCAN_GAP places there.
local function waitsBefore(l, name, from, tag)
  if l.card == 0 then return false end
  for _, place in ipairs(call('ZRANGEBYSCORE', l.places, format('%.0f', from), '(' .. format('%.17g', tag), 'LIMIT', 0, SCAN_GAP)) do
    local other = flowOf(place)
    if other.name == name and other.weight > 0 then return true end
  end
end

-- forward is the tag of a call that asks again. If its flow has a gap before it, the call moves into the
-- gap, and the gap moves behind it. If a call of its flow waits between the beginning of the gap and this
-- call, that one moves first. A tag beyond the end of its flow is from debts that have ended while the call
-- waited at another limit: it gets a new tag.
local function forward(l, tag, place, cost, flow, back, settles)
  if flow.urgent > 0 then return tag end
  local ends, from, to = stretch(l, flow.name)
  if not back and tag >= max(ends, l.dense) and tag > -tonumber(call('ZSCORE', l.flows, '~' .. flow.name) or 0) then
    return fairTag(l, cost, flow, settles)
  end
  local size = share(l, cost, flow.weight)
  if not from or from >= tag or tag >= to + size or waitsBefore(l, flow.name, from, tag) then return tag end
  keepStretch(l, flow.name, ends, from + size, to + size)
  if l.card > 0 then
    call('ZADD', l.places, 'XX', format('%.0f', from), place)
    l.first, l.sums = nil, nil
  end
  return from
end

-- served notes that a call with a tag has its turn.
local function served(l, tag)
  if l.virtual == 0 or not tag then return end
  l.virtual = max(l.virtual, min(tag, max(l.seq, floor(at))))
  local passed = call('ZRANGEBYSCORE', l.flows, format('%.0f', -l.virtual), format('%.0f', l.virtual), 'LIMIT', 0, FORGET_FLOWS)
  if #passed > 0 then erase('ZREM', l.flows, unpack(passed)) end
end

-- order gives a call its tag at a limit, if flows are named there. Flows count if calls wait at any limit of the call.
local function order(p, item, back, queued)
  local l, flow = p.l, item.flow or NOBODY
  if item.flow and queued then beginShares(l, flow.urgent == 0 and p.tag) end
  if l.virtual == 0 then return end
  if back then p.tag = overtaken(l, p.tag, p.cost, flow) end
  if p.tag then
    p.tag = forward(l, p.tag, p.place, p.cost, flow, back, item.settles)
  elseif item.waits then
    p.tag, p.charged = fairTag(l, p.cost, flow, item.settles), true
  end
end

-- corrected moves the end of a flow after a call has used more permits than its cost, or fewer. The end stays
-- behind the flow's last call that waits.
local function corrected(l, text, permits)
  local flow = flowOf(':::' .. text)
  if flow.weight == 0 then return end -- urgent
  local ends, from, to = stretch(l, flow.name)
  if permits > 0 then
    keepStretch(l, flow.name, after(l, ends, share(l, permits, flow.weight)), from, to)
  elseif permits < 0 and ends > max(l.virtual, l.dense) then
    local last = -tonumber(call('ZSCORE', l.flows, '^' .. flow.name) or 0)
    keepStretch(l, flow.name, max(ends - share(l, -permits, flow.weight), last, to or 0, l.virtual, l.dense), from, to)
  end
end

return { order = order, served = served, refund = refund, corrected = corrected, share = share }
end)
