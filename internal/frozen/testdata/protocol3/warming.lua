-- warming.lua: one permit every `a` micros, none at once, and fewer after a silence. It is Guava's
-- SmoothWarmingUp, with a cold factor of 3. Permits are stored while nobody calls. The more are stored,
-- the more time a permit costs, until the limit is warm after `b` micros. A call is due when the calls
-- before it are paid for.
-- https://guava.dev: com.google.common.util.concurrent.SmoothRateLimiter

if kinds.w then

local warming = { refills = true, close = atLeast }
local function highest(l) return l.b / l.a end -- with half of that, the limit is warm

function warming.unpack(l, text)
  l.stored = tonumber(text or highest(l))
  if not (l.stored and l.stored >= 0) then return 'BADSTATE meter: want stored permits, got ' .. text end
  l.stored = min(l.stored, highest(l))
end

function warming.pack(l) return format('%.17g', l.stored) end
local function storedAt(l, at) return min(highest(l), l.stored + max(0, at - l.free - l.part) / l.a) end

-- price is the time that permits cost; stored permits are spent first. The time grows from `a` to three times as much.
local function price(l, stored, permits)
  local high, slope = stored - highest(l) / 2, 4 * l.a * l.a / l.b
  local above = min(permits, max(0, high))
  return permits * l.a + above * slope * (2 * high - above) / 2
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
function warming.ahead(l, before)
  if before == 0 then return l.free + l.part end
  return max(at, l.free + l.part) + price(l, storedAt(l, at), before)
end

-- As for a paced limit with a burst of 1: while calls wait, none is stored.
function warming.lost(l) return l.free + l.part + 2 * l.a end

function warming.change(l, a, b)
  if a > l.a then l.last = '' end -- as for paced limits
  l.stored = l.stored / highest(l) * (b / a)
end

function warming.release(l) COMMON().release(l, 0) end
function warming.life(l) return l.b + max(0, l.free - now) end
function warming.fresh(l) l.free, l.part = floor(at), 0 end
function warming.reach(l) return format('%.0f %.17g', ceil(l.free + l.part - at), l.stored) end

function warming.remember(l, reach, unknown)
  local micros, stored = match(reach, '^(%S+) (%S+)$')
  micros, stored = tonumber(micros), tonumber(stored)
  if micros and stored and at + micros > l.free then
    l.stored = min(stored, highest(l))
    l.free, l.part, l.last = floor(at + micros), 0, ''
  end
  if unknown then atLeast(l, now + AHEAD) end
end

function warming.record() return now end -- old records are dropped first

-- Each call is due when the bucket is full again. So only permits used beyond the cost matter.
function warming.settle(l, cost, used)
  advance(l, max(0, used - cost) * l.a)
  return max(0, used - cost)
end

METERS.w = under(warming, COMMON)
end
