-- places.lua: the calls that wait at a limit, in the order of their tags. A tag is a moment
-- in micros, made unique: so the tags of a queue that was lost sort before those that are
-- given later. A place is "<process>:<number>:<cost>".

local SCAN_PLACES = 64

local function costOf(place) return tonumber(match(place, ':(%d+)$')) end
local function processOf(place) return match(place, '^([^:]*):') end

local function newTag(l)
  l.seq = max(l.seq + 1, floor(at))
  l.newest = l.seq
  return l.seq
end

local function enter(l, tag, place, cost)
  if call('ZADD', l.places, 'NX', format('%.17g', tag), place) == 1 then
    l.card, l.total, l.first, l.seq, l.newest = l.card + 1, l.total + cost, nil, max(l.seq, tag), nil
  end
end

local function leave(l, place, cost)
  if l.card > 0 and call('ZREM', l.places, place) == 1 then
    l.card, l.total, l.first = l.card - 1, l.total - cost, nil
    return true
  end
end

-- head is the first place, and its tag as a text.
local function head(l)
  if not l.first then l.first = call('ZRANGE', l.places, 0, 0, 'WITHSCORES') end
  return l.first[1], l.first[2]
end

-- before is how many permits those before a call want: as many as its rank, at the mean
-- cost, but at least those of the head.
local function before(l, tag)
  if l.card == 0 then return 0 end
  if not tag or tag == l.newest then return l.total end
  local rank = call('ZCOUNT', l.places, '-inf', '(' .. format('%.17g', tag))
  if rank == 0 then return 0 end
  return max(rank * l.total / l.card, costOf(head(l)))
end

local function forecast(l, tag, cost)
  return max(at, l.paused, l.meter.next(l, cost, at), l.meter.ahead(l, before(l, tag), cost))
end

-- overdue is how long ago the permits of the head were there for the first time since it
-- asked; nil if none waits. Others may have had those since, and it is the later for that.
-- They were not there before those of the head before it.
local function overdue(l, asking)
  if l.card == 0 then return end
  local place, tag = head(l)
  local moment = l.meter.ahead(l, 0, costOf(place))
  if asking[match(place, '^(.*):')] then
    l.head, l.since = tag, ceil(max(moment, at))
  elseif tag ~= l.head then
    l.head, l.since = tag, ceil(max(moment, min(l.since, at)))
  elseif l.since > at and moment < l.since then
    l.since = ceil(max(moment, at))
  end
  return at - max(l.since, l.paused), place
end

-- sooner notes that permits came back: those of the head are there from now on at the earliest.
function sooner(l)
  if l.card == 0 then return end
  local place, tag = head(l)
  if tag ~= l.head or l.since > at then
    l.head, l.since = tag, ceil(max(at, l.meter.ahead(l, 0, costOf(place))))
  end
end

-- clear lets places of one process go that are not in `asking`: of the first ones.
local function clear(l, process, asking)
  local gone = {}
  for _, place in ipairs(call('ZRANGE', l.places, 0, SCAN_PLACES - 1)) do
    if processOf(place) == process and not asking[match(place, '^(.*):')] then
      gone[#gone + 1] = place
      l.total = l.total - costOf(place)
    end
  end
  if #gone > 0 then l.card, l.first = l.card - call('ZREM', l.places, unpack(gone)), nil end
end

local function dead(l, process) return tonumber(call('ZSCORE', l.processes, process) or 0) < 0 end

-- entitled is the moment by which those before a call and it itself could have had their
-- turns. A process that is dead, or that does not ask for the permits of its head for a
-- grace, loses its places there: if it comes back with their tags, they are first. Permits
-- that were there for so long are for whoever asks. Newcomers stand behind those who wait.
local function entitled(l, tag, cost, grace, asking)
  local late, head = overdue(l, asking)
  if late and late > 0 and (late > grace or dead(l, processOf(head))) then
    clear(l, processOf(head), asking)
    late = overdue(l, asking)
  end
  if not late then return l.meter.ahead(l, 0, cost) end
  if late > grace then return at end
  if not tag then return huge end
  return l.meter.ahead(l, before(l, tag), cost)
end
