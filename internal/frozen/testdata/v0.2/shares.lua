-- shares.lua: fair shares, by start-time fair queueing. A call that names its flow (a tenant, an
-- account) has the tag at which its flow's share allows it: where the last call of the flow
-- ends, but not before `virtual`, the highest tag that had a turn. So each flow that waits gets
-- turns by its weight, however many of its calls wait. Tags are moments where flows are named,
-- too: a permit of a flow with weight 1 takes the limit's pace. Where no flow was named since
-- the queue was empty, `virtual` is 0, and none of this takes place; all debts end there.
--
-- The sorted set `flows` has, per flow, "=<flow>": where its last call ends; "<<flow>" and
-- "><flow>": the gap that places left, for its next calls, and those behind it that ask again;
-- "~<flow>": where the last call ends that came back too late. "!" is where the last urgent call
-- ends. Gaps and "~" are below 0, so that only "=" and "!" count as flows that wait. What
-- `virtual` has passed is removed.
--
-- Calls that waited before a flow was named have dense tags, a micro or more apart, up to
-- `dense`. Among them a flow's calls have the tags of those behind which its share is; that is
-- as fine as it can be there, so urgent calls have a turn between any two of theirs.
--
-- `speed` is how far `virtual` has moved of late, from `from` on, beside what was `given`: the
-- time that the limit takes for that. Where it is idle, that says nothing of who waits.

local LEAST_PACE, MOST_SHARE, LAST_TAG, FORGET_FLOWS, SPEED_WINDOW, TRUST, SCAN_DENSE = 1000, 1e13, 8e15, 64, 2000000, 0.7, 256
local NOBODY = { weight = 1, name = '', urgent = 0 } -- the flow of calls that name none

-- flowOf is the flow of a place, which says ":<weight>:<flow>" at its end.
local function flowOf(place)
  local weight, name = match(place, '^[^:]*:[^:]*:[^:]*:([^:]*):(.*)$')
  return weight and { weight = tonumber(weight), name = name } or NOBODY
end

-- share is the stretch of tags that a call takes up.
local function share(l, cost, weight)
  local pace = l.meter.pace and l.meter.pace(l) or l.a
  return max(1, min(MOST_SHARE, floor(cost * max(pace, LEAST_PACE) / weight)))
end

-- stretch reads where the last call of a flow ends, and its gap; nil: it has none.
local function stretch(l, name)
  local s = call('ZMSCORE', l.flows, '=' .. name, '<' .. name, '>' .. name)
  local ends, from, to = max(tonumber(s[1] or 0), l.virtual), max(-tonumber(s[2] or 0), l.virtual), -tonumber(s[3] or 0)
  if to > from then return ends, from, to end
  return ends
end

-- after is the tag that comes so much later. Among dense tags it is that of the place behind so
-- many permits of calls that name no flow, but one at least.
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

-- keepStretch writes them. A gap at the end is none.
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

-- beginShares lets flows count from now on. Who waits already is of the flow without a name, but for
-- the first one, if that names its own.
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
  l.from = l.virtual
end

-- urgentTag gives an urgent call its tag: the first one of all, as far as the part of the limit
-- goes that is for such calls. They are charged to that, and not to their flows.
local function urgentTag(l, cost, part)
  local last = tonumber(call('ZSCORE', l.flows, '!') or 0)
  local flows = call('ZCOUNT', l.flows, '(' .. format('%.0f', l.virtual), '+inf')
  if last > l.virtual then flows = flows - 1 end
  local tag = max(l.virtual, last)
  call('ZADD', l.flows, format('%.0f', after(l, tag, max(1, floor(share(l, cost, 1) * (1 - part) / part / max(1, flows))))), '!')
  l.charged = true
  return min(tag, LAST_TAG)
end

-- fairTag gives a new call its tag, and charges its flow. First calls of flows without debt stand
-- in the order in which they came: a micro per place behind `virtual`, within their stretch.
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

-- overtaken is the tag of a call that comes back from a booking after `virtual` has passed its own:
-- behind the calls of its flow that came back late before it. With their own tags all of them would
-- be before the calls of others. Slots keep theirs: before it is known how long calls take, tags
-- are close together.
local function overtaken(l, tag, cost, flow)
  if l.virtual <= tag or flow.urgent > 0 or l.kind == 's' then return tag end
  tag = max(l.virtual, -tonumber(call('ZSCORE', l.flows, '~' .. flow.name) or 0))
  call('ZADD', l.flows, format('%.0f', -after(l, tag, share(l, cost, flow.weight))), '~' .. flow.name)
  l.charged = true
  return min(tag, LAST_TAG)
end

-- forward is the tag of a call that asks again: that of a gap before it, which moves behind.
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

-- refund lets a flow have what a place that was left would have taken.
function refund(l, place, tag)
  if l.virtual == 0 or tag < l.dense then return end
  local flow = flowOf(place)
  if flow.weight == 0 then return end -- urgent
  local size = share(l, costOf(place), flow.weight)
  local ends, from, to = stretch(l, flow.name)
  if ends <= max(l.virtual, tag) then return end
  if not from then
    from, to = max(tag, l.virtual), max(tag, l.virtual) + size
  else
    local first = max(min(from, tag), l.virtual)
    to = first + to - from + size
    from = first
  end
  keepStretch(l, flow.name, ends, from, to)
end

-- served notes that a call with a tag has its turn.
local function served(l, tag, cost)
  if l.virtual == 0 or not tag then return end
  l.virtual = max(l.virtual, min(tag, max(l.seq, floor(at))))
  l.given = l.given + share(l, cost, 1)
  if l.virtual < l.dense then
    l.from, l.given = l.virtual, 0
  elseif l.given >= SPEED_WINDOW then
    l.speed = (l.virtual - l.from) / l.given
    l.from, l.given = l.virtual, 0
  end
  local passed = call('ZRANGEBYSCORE', l.flows, format('%.0f', -l.virtual), format('%.0f', l.virtual), 'LIMIT', 0, FORGET_FLOWS)
  if #passed > 0 then call('ZREM', l.flows, unpack(passed)) end
end

-- amongOthers is when a call that is booked is to be back, where other flows wait, too: their new
-- calls come before it. Not all of that is believed, as others may have had enough meanwhile.
local function amongOthers(l, tag, moment)
  if l.speed <= 0 or tag <= l.virtual or call('ZCOUNT', l.flows, '(' .. format('%.0f', l.virtual), '+inf') < 2 then return moment end
  return moment + TRUST * max(0, at + (tag - l.virtual) / l.speed - moment)
end

-- order gives a call the tag that it has at a limit: of a new one that waits, of one that comes back
-- from a booking, and of one that can come forward.
local function order(p, asker, back)
  local l, flow = p.l, asker.flow or NOBODY
  if asker.flow and (l.card > 0 or l.bookings > 0) then beginShares(l, p.tag) end
  if l.virtual == 0 then return end
  if back then p.tag = overtaken(l, p.tag, p.cost, flow) end
  if p.tag then
    p.tag = forward(l, p.tag, placeOf(asker, p), p.cost, flow)
  elseif asker.waits then
    p.tag, p.charged = fairTag(l, p.cost, flow), true
  end
end

-- endShares ends all debts, as nobody waits.
function endShares(l)
  if l.virtual == 0 or l.card > 0 or l.bookings > 0 then return end
  l.virtual, l.from, l.given, l.speed, l.dense = 0, 0, 0, 0, 0
  call('UNLINK', l.flows)
end
