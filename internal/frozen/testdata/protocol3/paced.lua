-- paced.lua: one permit every `a` micros, at most `b` of them at once. The whole state is
-- nextFreeTicketMicros: see meter.lua.

if kinds.p then

local paced = { refills = true, close = atLeast, unpack = 0, pack = 0, next = 0, spend = 0, left = 0, most = 0, ahead = 0, usable = 0, lost = 0,
  overflows = 0, unspend = 0, change = 0, hold = 0, release = 0, move = 0, life = 0, fresh = 0, reach = 0, remember = 0, record = 0, settle = 0 }

local function empty(l, at) return at - l.b * l.a end -- nextFree of a bucket that is full

-- `low` is for costs that are settled later. It has the spendings that left the bucket lower than all
-- later spendings did, the lowest first. Each entry is how many micros the bucket lacked to be full, and
-- the number of the spending. `refunded` is what refunds have given back since. If costs are settled, a
-- turn may be used until LATE after it is due, and no later. Otherwise the provider's bucket could be
-- full by then.
local LOWS, LATE = 8, 20000

local function lower(low, micros)
  low.spendings = low.spendings + 1
  micros = micros + low.refunded
  while low[1] and low[#low].micros >= micros do low[#low] = nil end
  low[#low + 1] = { micros = micros, number = low.spendings }
  if #low > LOWS then -- the lower one of two entries counts for both
    table.remove(low, 2)
    low[1].number = low[2].number - 1
  end
end

local function lowest(low, number)
  for _, one in ipairs(low) do
    if one.number > number then return max(0, one.micros - low.refunded) end
  end
  return huge
end

function paced.unpack(l, text)
  if not text then return end
  local numbers = {}
  for word in gmatch(text, '%S+') do numbers[#numbers + 1] = tonumber(word) end
  if #numbers < 3 or #numbers % 2 == 0 then return 'BADSTATE meter: want three numbers and pairs, got ' .. text end
  l.low = { spendings = numbers[1], refunded = numbers[2], from = numbers[3] }
  for k = 4, #numbers, 2 do l.low[#l.low + 1] = { micros = numbers[k], number = numbers[k + 1] } end
end

function paced.pack(l)
  if not l.low then return end
  local text = format('%.0f %.17g %.0f', l.low.spendings, l.low.refunded, l.low.from)
  for _, one in ipairs(l.low) do text = text .. format(' %.17g %.0f', one.micros, one.number) end
  return text
end

function paced.next(l, cost, at) return max(at, max(l.free + l.part, empty(l, at)) + cost * l.a) end

function paced.spend(l, cost, at)
  if l.low then lower(l.low, max(0, l.free + l.part - empty(l, at + LATE))) end
  atLeast(l, empty(l, at))
  advance(l, cost * l.a)
end

function paced.left(l) return min(l.b, (at - l.free - l.part) / l.a) end
function paced.most(l) return l.b end
function paced.ahead(l, before, cost) return l.free + l.part + (before + cost) * l.a end

-- f = nextFree after the spending. For each turn f <= due <= use <= f + (b-cost)*a, and f grows by
-- cost*a. So the uses in any stretch of time sum to at most its length and b*a.
function paced.usable(l, cost, due)
  return min(l.free + l.part + (l.b - cost) * l.a, l.low and due + LATE or huge)
end

-- lost is when the bucket has been full for so long that a whole permit is lost.
function paced.lost(l) return l.free + l.part + (l.b + 1) * l.a end

-- A part of a permit may overflow. Otherwise calls of a slow limit would never get a turn at a fast limit
-- that is in use.
function paced.overflows(l, due) return paced.lost(l) < due end

function paced.unspend(l, cost)
  advance(l, -cost * l.a)
  return true
end

-- Granted turns stay, and the new limit begins behind them. They do not come back to a slower limit:
-- their permits would take more of its time than they had. A bucket keeps its permits, up to the new
-- burst. Costs from before the change get no refund.
function paced.change(l, a, b)
  if a > l.a then l.last = '' end
  if l.low then lower(l.low, 0) end
  if l.free + l.part < now then
    local permits = min((now - l.free - l.part) / l.a, l.b, b)
    local free = now - permits * a
    l.free = floor(free)
    l.part = free - l.free
  end
end

-- There is one permit at the end of a pause.
function paced.hold(l, till) return hold(l, till - l.a) end
function paced.release(l) release(l, l.a) end
function paced.move(l, micros) advance(l, micros) end
function paced.life(l) return l.b * l.a + max(0, l.free - now) end
function paced.fresh(l) l.free, l.part = floor(empty(l, at)), 0 end
function paced.reach(l) return format('%.0f', ceil(l.free + l.part - at)) end

function paced.remember(l, reach, unknown)
  local micros = tonumber(reach)
  if micros then atLeast(l, at + micros) end
  if unknown then atLeast(l, now + AHEAD) end
end

-- record is called before a spending whose cost is settled later. The first spendings get no refund while
-- earlier turns may still be used later than LATE.
function paced.record(l, due)
  l.low = l.low or { spendings = 0, refunded = 0, from = l.free + l.part > empty(l, due) and ceil(due + l.b * l.a) or 0 }
  return l.low.spendings + 1
end

-- A refund is limited to what the provider's bucket cannot have lost since by overflowing.
function paced.settle(l, cost, used, record)
  local micros = (used - cost) * l.a
  if micros < 0 then
    micros = (not l.low or now < l.low.from) and 0 or -min(-micros, lowest(l.low, record))
    if l.low then l.low.refunded = l.low.refunded - micros end
  end
  advance(l, micros)
  return true
end

METERS.p = setmetatable(paced, METER)
end
