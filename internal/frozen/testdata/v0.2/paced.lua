-- paced.lua: one permit every `a` micros, at most `b` of them at once. All that it keeps is
-- nextFreeTicketMicros: when all permits that were spent have come. Its fraction is kept
-- apart, since a double of today's micros is exact to a quarter of one only.
--
-- All meters have the same functions. next: the moment, not before `at`, at which so many
-- permits may be spent. spend: spends them then. ahead: when a call gets its permits after
-- so many permits of others. left: permits that could be spent now. usable: until when permits
-- that were just spent may be used.
-- unspend: takes the last spending back, or a part of it; whether it could. change: another
-- `a` and `b`. hold: none before a moment. move: the clock has stepped. life: for how long
-- the state is worth keeping. reach, remember: what a caller keeps of it for the case that
-- Redis loses it, and brings back then.

local paced = {}

local function empty(l, at) return at - l.b * l.a end -- nextFree of a bucket that is full

local function advance(l, micros)
  local part = l.part + micros
  l.free, l.part = l.free + floor(part), part % 1
end

local function atLeast(l, free)
  if l.free + l.part < free then
    l.free = floor(free)
    l.part = free - l.free
  end
end

-- Where costs are settled, `low` has how many micros the bucket lacked to be full at a spending,
-- and its number: only those that lacked less than all after them, the least first. Refunds since
-- are taken off (`refunded`). A turn may be used until LATE after it is due, and no later: else
-- the provider's bucket could be full by then.
local LOWS, LATE = 8, 20000

local function lower(low, micros)
  low.spendings = low.spendings + 1
  micros = micros + low.refunded
  while low[1] and low[#low].micros >= micros do low[#low] = nil end
  low[#low + 1] = { micros = micros, number = low.spendings }
  if #low > LOWS then -- the lower one of two stands for both
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
  local words = { format('%.0f %.17g %.0f', l.low.spendings, l.low.refunded, l.low.from) }
  for _, one in ipairs(l.low) do words[#words + 1] = format('%.17g %.0f', one.micros, one.number) end
  return table.concat(words, ' ')
end

function paced.next(l, cost, at) return max(at, max(l.free + l.part, empty(l, at)) + cost * l.a) end

function paced.spend(l, cost, at)
  if l.low then lower(l.low, max(0, l.free + l.part - empty(l, at + LATE))) end
  atLeast(l, empty(l, at))
  advance(l, cost * l.a)
end

function paced.left(l) return min(l.b, (at - l.free - l.part) / l.a) end

function paced.ahead(l, before, cost) return l.free + l.part + (before + cost) * l.a end

-- With f = nextFree after the spending, f <= due <= use <= f + (b-cost)a for each turn, and
-- f grows by cost*a per turn: so the uses in any stretch of time sum to at most its length
-- and b*a.
function paced.usable(l, cost, due)
  return min(l.free + l.part + (l.b - cost) * l.a, l.low and due + LATE or huge)
end

-- A permit that others could have used overflows before `due`. (A part of one is worth it:
-- else calls of a slow limit would never have their turn at a fast one that is in use.)
function paced.overflows(l, due) return l.free + l.part < empty(l, due) - l.a end

function paced.unspend(l, cost)
  advance(l, -cost * l.a)
  return true
end

-- Turns that were given stay, so a slower limit begins behind them. A bucket keeps its permits, up
-- to the new burst. Costs from before the change get no refund.
function paced.change(l, a, b)
  if l.low then lower(l.low, 0) end
  if l.free + l.part < now then
    local permits = min((now - l.free - l.part) / l.a, l.b, b)
    local free = now - permits * a
    l.free = floor(free)
    l.part = free - l.free
  end
end

local function hold(l, free)
  local held = max(0, free - l.free - l.part)
  atLeast(l, free)
  return held
end

-- Then there is one permit.
function paced.hold(l, till) return hold(l, till - l.a) end

function paced.release(l, micros) advance(l, -micros) end

function paced.move(l, micros) advance(l, micros) end

function paced.life(l) return l.b * l.a + max(0, l.free - now) end

function paced.fresh(l)
  l.free, l.part = floor(at - l.b * l.a), 0
end

function paced.reach(l) return format('%.0f', ceil(l.free + l.part - at)) end

function paced.remember(l, reach, unknown)
  local micros = tonumber(reach)
  if micros then atLeast(l, at + micros) end
  if unknown then atLeast(l, now + AHEAD) end
end

-- record is called before a spending whose cost will be settled. Of the first ones nothing
-- goes back while turns may be out that may be used later than LATE.
function paced.record(l, due)
  l.low = l.low or { spendings = 0, refunded = 0, from = l.free + l.part > empty(l, due) and ceil(due + l.b * l.a) or 0 }
  return l.low.spendings + 1
end

-- What was not used after all goes back as far as the provider's bucket can not have
-- overflowed since.
function paced.settle(l, cost, used, record)
  local micros = (used - cost) * l.a
  if micros < 0 then
    micros = (not l.low or now < l.low.from) and 0 or -min(-micros, lowest(l.low, record))
    if l.low then l.low.refunded = l.low.refunded - micros end
  end
  advance(l, micros)
end

-- The meters, by kind. The others are made when they are needed: that takes Redis's time.
local METERS = { p = paced }
