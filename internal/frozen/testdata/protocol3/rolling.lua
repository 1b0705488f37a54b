-- rolling.lua: never more than `a` permits in any `b` micros. Permits are numbered as they are spent, at
-- moments that never go back. So permit n may be spent `b` after permit n - a. The log has a spending as
-- "<number> <moment> <cost> <id>", with its last number as score. Moments are on a clock of the log:
-- Redis's clock less all its steps.

if kinds.r then

local rolling = {}
local SCAN = 64
local PACKED = { 'used', 'moment', 'offset' }

function rolling.unpack(l, text)
  l.logged = true -- the log is in use as long as the state is
  return unpackInto(l, 'meter', PACKED, text or '0 0 0')
end

function rolling.pack(l) return format('%.0f %.0f %.0f', l.used, l.moment, l.offset) end

local function entry(text)
  local moment, cost, id = match(text, '^%d+ (-?%d+) (%d+) (.*)$')
  return tonumber(moment), tonumber(cost), id
end

local function write(l, number, moment, cost, id)
  call('ZADD', l.log, format('%.0f', number), format('%.0f %.0f %.0f %s', number, moment, cost, id))
end

-- momentOf is when permit n was spent. It is nil if the permit was never spent, or no longer counts.
local function momentOf(l, n)
  local found = n > 0 and call('ZRANGEBYSCORE', l.log, format('%.0f', n), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if not found or not found[1] then return end
  local moment, cost = entry(found[1])
  if n > tonumber(found[2]) - cost then return moment end
end

function rolling.next(l, cost, at)
  local moment = momentOf(l, l.used + cost - l.a)
  return max(at, l.moment + l.offset, moment and moment + l.offset + l.b or 0)
end

function rolling.spend(l, cost, at, id)
  l.used, l.moment = l.used + cost, ceil(max(at - l.offset, l.moment))
  write(l, l.used, l.moment, cost, id or '')
  local head = call('ZRANGE', l.log, 0, 3) -- more entries that have left the window are removed than written
  for _, text in ipairs(head) do
    if entry(text) > now - l.offset - l.b then break end
    call('ZREM', l.log, text)
  end
end

-- left finds the most permits that no longer count by halves.
function rolling.left(l)
  local least, most = 0, floor(l.a)
  while least < most do
    local middle = ceil((least + most) / 2)
    local moment = momentOf(l, l.used + middle - l.a)
    if not moment or moment <= at - l.offset - l.b then least = middle else most = middle - 1 end
  end
  return least
end

function rolling.ahead(l, before, cost)
  before = ceil(before) -- a rank times a mean
  local rounds = ceil((before + cost) / l.a)
  local moment = momentOf(l, l.used + before + cost - rounds * l.a)
  return (moment and moment + l.offset or at - l.b) + rounds * l.b
end

function rolling.unspend(l, cost)
  while cost > 0 do
    local text = call('ZREVRANGE', l.log, 0, 0)[1]
    if not text then return true end
    local moment, size, id = entry(text)
    erase('ZREM', l.log, text)
    if size > cost then write(l, l.used - cost, moment, size - cost, id) end
    l.used = l.used - min(size, cost)
    cost = cost - size
  end
  return true
end

function rolling.move(l, micros) l.offset = l.offset + micros end
function rolling.pace(l) return l.b / l.a end
function rolling.life(l) return max(0, l.moment + l.offset - now) + l.b end

-- inWindow returns how many permits count. It returns more while the log still has entries that no longer
-- count.
local function inWindow(l)
  local head = call('ZRANGE', l.log, 0, 0, 'WITHSCORES')
  if not head[1] then return 0 end
  local _, cost = entry(head[1])
  return l.used - (tonumber(head[2]) - cost)
end

function rolling.reach(l) return format('%.0f %.0f', inWindow(l), l.moment + l.offset - at) end

function rolling.remember(l, reach)
  local count, last = match(reach, '^(%d+) (-?%d+)$')
  count, last = tonumber(count), tonumber(last)
  if not count or last + l.b <= 0 then return end
  local missing = min(count, l.a) - inWindow(l)
  if missing > 0 then
    l.moment = max(l.moment, ceil(at + last - l.offset))
    l.used = l.used + missing
    write(l, l.used, l.moment, missing, 'lost')
  end
end

-- The cost of a call is put right if few calls have come since. Otherwise permits that it used beyond its
-- cost count as spent now.
function rolling.settle(l, cost, used, _, id)
  local tail = call('ZREVRANGE', l.log, 0, SCAN - 1, 'WITHSCORES')
  for i = 1, #tail, 2 do
    local _, size, theirs = entry(tail[i])
    if theirs == id and size == cost then
      for k = i, 1, -2 do
        local at, size, id = entry(tail[k])
        call('ZREM', l.log, tail[k])
        size = k == i and used or size
        if size > 0 then write(l, tail[k + 1] + used - cost, at, size, k == i and '' or id) end
      end
      l.used = l.used + used - cost
      return true
    end
  end
  if used > cost then rolling.spend(l, used - cost, at) end
  return used > cost
end

METERS.r = setmetatable(rolling, METER)
end
