-- shares.lua: fair shares, by start-time fair queueing. A call may name its flow: a tenant, or an
-- account. Then its tag is where its flow's share begins: the end of the last call of the flow, but not
-- before `virtual`. `virtual` is the highest tag that had a turn. So each waiting flow gets turns by its
-- weight, however many of its calls wait. Tags are moments if flows are named, too: a permit of a flow
-- with weight 1 takes as long as a permit of the limit. If no flow was named since the queue was empty,
-- `virtual` is 0, and nothing of this file applies; all debts end there.
--
-- Calls that waited before a flow was named have dense tags, a micro or more apart, up to `dense`. Among
-- them, a call of a flow has the tag of the waiting call after which its share begins. Shares cannot be
-- finer there, so urgent calls have a turn between any two of these calls.
--
-- The sorted set `flows` has up to four entries per flow. "=<flow>" is where its last call ends.
-- "<<flow>" and "><flow>" are the ends of a gap. Places that calls left make the gap; the flow's next
-- calls may move into it, and its calls behind the gap when they ask again. "~<flow>" is where its last
-- call ends that came back too late. "!" is where the last urgent call ends. Gaps and "~" are below 0, so
-- that only "=" and "!" count as flows that wait. Entries that `virtual` has passed are removed.

local shares = once(function()

local LEAST_PACE, MOST_SHARE = 1000, 1e13
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

local LAST_TAG, FORGET_FLOWS, SCAN_DENSE = 8e15, 64, 256

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
-- calls have together. They are charged to that part, and not to their flows.
local function urgentTag(l, cost, part)
  local last = tonumber(call('ZSCORE', l.flows, '!') or 0)
  local flows = call('ZCOUNT', l.flows, '(' .. format('%.0f', l.virtual), '+inf')
  if last > l.virtual then flows = flows - 1 end
  local tag = max(l.virtual, last)
  return charge(l, '!', after(l, tag, max(1, floor(share(l, cost, 1) * (1 - part) / part / max(1, flows)))), tag)
end

-- fairTag gives a new call its tag, and charges its flow. The first calls of flows without debt keep the
-- order in which they came: a micro per place behind `virtual`, within their stretch.
local function fairTag(l, cost, flow)
  if flow.urgent > 0 then return urgentTag(l, cost, flow.urgent) end
  local size = share(l, cost, flow.weight)
  local ends, from, to = stretch(l, flow.name)
  local tag = from or ends
  if from then
    from = from + size
    if from >= to then ends, from = max(ends, from), nil end
  else
    if tag == l.virtual then tag = tag + min(l.card, size - 1) end
    ends = after(l, ends, size)
  end
  keepStretch(l, flow.name, ends, from, to)
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

-- forward is the tag of a call that asks again. If its flow has a gap before it, the call moves into the
-- gap, and the gap moves behind it.
local function forward(l, tag, place, cost, flow)
  if flow.urgent > 0 then return tag end
  local ends, from, to = stretch(l, flow.name)
  if not from or from >= tag then return tag end
  local size = share(l, cost, flow.weight)
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

-- order gives a call its tag at a limit, if flows are named there.
local function order(p, item, back)
  local l, flow = p.l, item.flow or NOBODY
  if item.flow and (l.card > 0 or l.bookings > 0) then beginShares(l, p.tag) end
  if l.virtual == 0 then return end
  if back then p.tag = overtaken(l, p.tag, p.cost, flow) end
  if p.tag then
    p.tag = forward(l, p.tag, p.place, p.cost, flow)
  elseif item.waits then
    p.tag, p.charged = fairTag(l, p.cost, flow), true
  end
end

return { order = order, served = served, refund = refund, share = share }
end)
