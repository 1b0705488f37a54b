-- paced.lua: one permit every `a` micros, at most `b` of them at once. The whole state is
-- nextFreeTicketMicros: see meter.lua.

if kinds.p then

local paced = { refills = true, tells = false, asks = false }

local function empty(l, at) return at - l.b * l.a end -- nextFree of a bucket that is full

local LATE = 20000 -- micros: see lower

-- rare has the functions that few scripts need.
local rare = once(function()

local rare = under({}, COMMON)

-- `low` is for costs that are settled later. Each entry is how many micros the bucket lacked to be full
-- before a spending, and the number of that spending: it lacked no less before any later one. The entries
-- rise. If there are too many, the lower one of the two closest counts for both, so an entry is too low by
-- a fifteenth of the bucket at most. If costs are settled, a turn may be used until LATE after it is due,
-- and no later. Otherwise the provider's bucket could be full by then.
local LOWS = 16

function rare.lower(low, micros)
  low.spendings = low.spendings + 1
  while low[1] and low[#low].micros >= micros do low[#low] = nil end
  low[#low + 1] = { micros = micros, number = low.spendings }
  if #low <= LOWS then return end
  local closest, gap = 1, huge
  for k = 1, LOWS do
    local step = low[k + 1].micros - low[k].micros
    if step < gap then closest, gap = k, step end
  end
  low[closest].number = low[closest + 1].number
  table.remove(low, closest + 1)
end

function rare.read(l, text)
  local numbers = {}
  for word in gmatch(text, '%S+') do numbers[#numbers + 1] = tonumber(word) end
  if #numbers < 3 or #numbers % 2 == 0 then return 'BADSTATE meter: want three numbers and pairs, got ' .. text end
  l.low = { spendings = numbers[1], from = numbers[3] }
  for k = 4, #numbers, 2 do l.low[#l.low + 1] = { micros = max(0, numbers[k] - numbers[2]), number = numbers[k + 1] } end
end

function rare.write(l)
  local text = format('%.0f 0 %.0f', l.low.spendings, l.low.from) -- scripts of before count their refunds in the 0
  for _, one in ipairs(l.low) do text = text .. format(' %.17g %.0f', one.micros, one.number) end
  return text
end

-- behind returns the first entry of a spending after a number.
local function behind(low, number)
  for k, one in ipairs(low) do
    if one.number > number then return k end
  end
end

-- correct changes what the bucket lacked after a spending whose cost is settled: by as much after a refund. After
-- a surcharge an entry that may stand for the spending itself stays.
local function correct(low, k, micros)
  if micros > 0 and low[k].micros > 0 then k = k + 1 elseif micros > 0 then return end
  for n = k, #low do low[n].micros = low[n].micros + micros end
  while micros < 0 and k > 1 and low[k - 1].micros >= low[k].micros do
    table.remove(low, k - 1)
    k = k - 1
  end
end

function rare.left(l) return min(l.b, (at - l.free - l.part) / l.a) end
-- Granted turns stay, and the new limit begins behind them. They do not come back to a slower limit:
-- their permits would take more of its time than they had. A bucket keeps its permits, up to the new
-- burst. Costs from before the change get no refund. A turn of a slower limit may come back to a faster one, as its
-- permits take less of its time. Granted turns end when they are due: see change.shorten in move.go.
function rare.change(l, a, b)
  if a > l.a then l.last = '' end
  if l.low then rare.lower(l.low, 0) end
  if l.free + l.part < now then
    local permits = min((now - l.free - l.part) / l.a, l.b, b)
    local free = now - permits * a
    l.free = floor(free)
    l.part = free - l.free
  end
end

-- There is one permit at the end of a pause.
function rare.hold(l, till) return COMMON().hold(l, till - l.a) end
function rare.release(l) COMMON().release(l, l.a) end

-- Costs from before the bucket is counted as empty get no refund: the bucket may have had it since.
function rare.close(l, moment)
  if l.low then rare.lower(l.low, 0) end
  atLeast(l, moment)
end

function rare.fresh(l) l.free, l.part = floor(empty(l, at)), 0 end
-- Keys that a step of the clock ahead has made expire would have been there for as long as the bucket was not full. So the
-- bucket lacks no more than the step.
function rare.remember(l, reach, unknown, stepped)
  local micros = tonumber(reach)
  if micros then atLeast(l, at + micros) end
  if unknown then atLeast(l, min(now + AHEAD, l.free + l.part + (stepped or huge))) end
end

-- record is called before a spending whose cost is settled later. The first spendings get no refund while
-- earlier turns may still be used later than LATE.
function rare.record(l, due)
  l.low = l.low or { spendings = 0, from = l.free + l.part > empty(l, due) and ceil(due + l.b * l.a) or 0 }
  return l.low.spendings + 1
end

-- A refund is limited to what the provider's bucket cannot have lost since by overflowing.
function rare.settle(l, cost, used, record)
  local micros, k = (used - cost) * l.a, l.low and behind(l.low, record)
  if micros < 0 then micros = (not l.low or now < l.low.from) and 0 or -min(-micros, k and l.low[k].micros or huge) end
  if k then correct(l.low, k, micros) end
  advance(l, micros)
  return ceil(micros / l.a)
end

return rare
end)

function paced.unpack(l, text) return text and rare().read(l, text) or nil end
function paced.pack(l) return l.low and rare().write(l) end
function paced.next(l, cost, at) return max(at, max(l.free + l.part, empty(l, at)) + cost * l.a) end

function paced.spend(l, cost, at)
  if l.low then rare().lower(l.low, max(0, l.free + l.part - empty(l, at + LATE))) end
  atLeast(l, empty(l, at))
  advance(l, cost * l.a)
end

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
-- that is in use. Where another call is first in the queue, no part may overflow: that call would have the part.
function paced.overflows(l, due, others) return paced.lost(l) - (others and l.a or 0) < due end

function paced.life(l) return l.b * l.a + max(0, l.free - now) end
function paced.reach(l) return format('%.0f', ceil(l.free + l.part - at)) end

METERS.p = under(paced, rare)
end
