-- warming.lua: one permit every `a` micros, none at once, and fewer after a silence. It is Guava's
-- SmoothWarmingUp, with a cold factor of 3. Permits are stored while nobody calls. The more are stored,
-- the more time a permit costs, until the limit is warm after `b` micros. A call is due when the calls
-- before it are paid for.
-- https://guava.dev: com.google.common.util.concurrent.SmoothRateLimiter

if kinds.w then

local warming = { refills = true, hold = hold, close = atLeast }
local COLD = 3

local function curve(l)
  l.threshold = l.b / l.a / 2
  l.highest = l.threshold + 2 * l.b / (l.a + COLD * l.a)
  l.slope = (COLD - 1) * l.a / (l.highest - l.threshold)
end

function warming.unpack(l, text)
  curve(l)
  l.stored = tonumber(text or l.highest)
  if not (l.stored and l.stored >= 0) then return 'BADSTATE meter: want stored permits, got ' .. text end
  l.stored = min(l.stored, l.highest)
end

function warming.pack(l) return format('%.17g', l.stored) end
local function storedAt(l, at) return min(l.highest, l.stored + max(0, at - l.free - l.part) * l.highest / l.b) end

-- price is the time that permits cost; stored permits are spent first.
local function price(l, stored, permits)
  local high = stored - l.threshold
  local above = min(permits, max(0, high))
  return permits * l.a + above * l.slope * (2 * high - above) / 2
end

function warming.next(l, _, at) return max(at, l.free + l.part) end

function warming.spend(l, cost, at)
  l.stored = storedAt(l, at)
  atLeast(l, at)
  advance(l, price(l, l.stored, cost))
  l.stored = max(0, l.stored - cost)
end

function warming.left(l) return l.free + l.part <= at and storedAt(l, at) or 0 end
function warming.most() return 1e9 end
function warming.ahead(l, before) return max(at, l.free + l.part) + price(l, storedAt(l, at), before) end

-- The permits come back as if the limit had been warm.
function warming.unspend(l, cost)
  advance(l, -cost * l.a)
  return true
end

function warming.change(l, a, b)
  if a > l.a then l.last = '' end -- as for paced limits
  local full = l.stored / l.highest
  l.a, l.b = a, b
  curve(l)
  l.stored = full * l.highest
end

function warming.release(l) release(l, 0) end
function warming.move(l, micros) advance(l, micros) end
function warming.life(l) return l.b + max(0, l.free - now) end
function warming.fresh(l) l.free, l.part = floor(at), 0 end
function warming.reach(l) return format('%.0f %.17g', ceil(l.free + l.part - at), l.stored) end

function warming.remember(l, reach, unknown)
  local micros, stored = match(reach, '^(%S+) (%S+)$')
  micros, stored = tonumber(micros), tonumber(stored)
  if micros and stored and at + micros > l.free then
    l.stored = min(stored, l.highest)
    l.free, l.part, l.last = floor(at + micros), 0, ''
  end
  if unknown then atLeast(l, now + AHEAD) end
end

function warming.record() return now end -- old records are dropped first

-- Each call is due when the bucket is full again. So only permits used beyond the cost matter.
function warming.settle(l, cost, used)
  advance(l, max(0, used - cost) * l.a)
  return true
end

METERS.w = setmetatable(warming, METER)
end
