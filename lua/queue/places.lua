-- places.lua: the calls that wait at a limit, in the order of their tags. A tag is a moment
-- in micros, made unique: so the tags of a queue that was lost sort before those that are
-- given later. A place is "<process>:<number>:<cost>".

local SCAN_PLACES = 64

local function costOf(place) return tonumber(match(place, ':(%d+)$')) end
local function processOf(place) return match(place, '^([^:]*):') end

local function newTag(l)
  l.seq = max(l.seq + 1, floor(at))
  return l.seq
end

local function enter(l, tag, place, cost)
  if call('ZADD', l.places, 'NX', format('%.17g', tag), place) == 1 then
    l.card, l.total = l.card + 1, l.total + cost
  end
end

local function leave(l, place, cost)
  if l.card > 0 and call('ZREM', l.places, place) == 1 then
    l.card, l.total = l.card - 1, l.total - cost
    return true
  end
end

-- before is how many permits those before a call want: as many as its rank, at the mean
-- cost, but at least those of the head.
local function before(l, tag)
  if l.card == 0 then return 0 end
  if not tag then return l.total end
  local rank = call('ZCOUNT', l.places, '-inf', '(' .. format('%.17g', tag))
  if rank == 0 then return 0 end
  return max(rank * l.total / l.card, costOf(call('ZRANGE', l.places, 0, 0)[1]))
end

local function forecast(l, tag, cost)
  return max(at, l.paused, l.meter.next(l, cost, at), l.meter.ahead(l, before(l, tag), cost))
end

-- overdue is how long ago the permits of the head were there for the first time; nil if none
-- waits. Others may have had those since, and it is the later for that.
local function overdue(l)
  if l.card == 0 then return end
  local head = call('ZRANGE', l.places, 0, 0, 'WITHSCORES')
  local moment = l.meter.ahead(l, 0, costOf(head[1]))
  if head[2] ~= l.head or moment < l.since then l.head, l.since = head[2], ceil(moment) end
  return at - max(l.since, l.paused), head[1]
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
  if #gone > 0 then l.card = l.card - call('ZREM', l.places, unpack(gone)) end
end

local function dead(l, process) return tonumber(call('ZSCORE', l.processes, process) or 0) < 0 end

-- entitled is the moment by which those before a call and it itself could have had their
-- turns. A process that is dead, or that does not ask for the permits of its head for a
-- grace, loses its places there: if it comes back with their tags, they are first. Permits
-- that were there for so long are for whoever asks. Newcomers stand behind those who wait.
local function entitled(l, tag, cost, grace, asking)
  local late, head = overdue(l)
  if late and late > 0 and (late > grace or dead(l, processOf(head))) then
    clear(l, processOf(head), asking)
    late = overdue(l)
  end
  if not late then return l.meter.ahead(l, 0, cost) end
  if late > grace then return at end
  if not tag then return huge end
  return l.meter.ahead(l, before(l, tag), cost)
end
