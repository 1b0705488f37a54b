-- flows.lua: how much of a limit each flow has had: see shares.lua for the order that follows from it.
-- The sorted set `flows` has, per flow, "=<flow>": where its last call ends; "<<flow>" and "><flow>":
-- the gap that left places leave to its next calls, and to its calls behind the gap that ask again;
-- "~<flow>": where its last call ends that came back too late. "!" is where the last urgent call ends.
-- Gaps and "~" are below 0, so that only "=" and "!" count as flows that wait. Entries that `virtual`
-- has passed are removed.

local LEAST_PACE, MOST_SHARE, SCAN_PLACES = 1000, 1e13, 64
local NOBODY = { weight = 1, name = '', urgent = 0 } -- the flow of calls that name none

-- flowOf is the flow of a place, which says ":<weight>:<flow>" at its end.
local function flowOf(place)
  local weight, name = match(place, '^[^:]*:[^:]*:[^:]*:([^:]*):(.*)$')
  return weight and { weight = tonumber(weight), name = name } or NOBODY
end

-- share is the stretch of tags that a call takes up.
local function share(l, cost, weight)
  return max(1, min(MOST_SHARE, floor(cost * max(l.meter.pace(l), LEAST_PACE) / weight)))
end

-- stretch reads where the last call of a flow ends, and its gap; nil: it has none.
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

-- refund makes a gap in a flow for a place that was left, or makes its gap wider.
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

-- clear removes the places of a process from the first SCAN_PLACES of the queue, except those of calls in
-- `asking`. If the process is dead, their flows get a refund.
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
  if #gone == 0 then return end
  l.card, l.first, l.sums = l.card - call('ZREM', l.places, unpack(gone)), nil, nil
  tellLeft(l)
end
