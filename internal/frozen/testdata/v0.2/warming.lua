-- warming.lua: one permit every `a` micros, none at once, and fewer after a silence: Guava's
-- SmoothWarmingUp, with a cold factor of 3. Permits are stored while nobody calls, and the
-- more are stored the more time one of them costs, until the limit is warm after `b` micros.
-- A call is due when those before it are paid for.
-- https://guava.dev: com.google.common.util.concurrent.SmoothRateLimiter

METERS.w = function()

local warming = {}
local COLD = 3

local function curve(l)
  l.threshold = l.b / l.a / 2
  l.most = l.threshold + 2 * l.b / (l.a + COLD * l.a)
  l.slope = (COLD - 1) * l.a / (l.most - l.threshold)
end

function warming.unpack(l, text)
  curve(l)
  l.stored = tonumber(text or l.most)
  if not (l.stored and l.stored >= 0) then return 'BADSTATE meter: want stored permits, got ' .. text end
  l.stored = min(l.stored, l.most)
end

function warming.pack(l) return format('%.17g', l.stored) end

local function storedAt(l, at) return min(l.most, l.stored + max(0, at - l.free - l.part) * l.most / l.b) end

-- price is the time that permits cost, of which the stored ones are spent first.
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

function warming.ahead(l, before) return max(at, l.free + l.part) + price(l, storedAt(l, at), before) end

function warming.usable(_, _, due) return due end

function warming.overflows() return false end

-- As if it had been warm.
function warming.unspend(l, cost)
  advance(l, -cost * l.a)
  return true
end

function warming.change(l, a, b)
  local full = l.stored / l.most
  l.a, l.b = a, b
  curve(l)
  l.stored = full * l.most
end

warming.hold, warming.release, warming.move = hold, paced.release, paced.move

function warming.life(l) return l.b + max(0, l.free - now) end

function warming.fresh(l) l.free, l.part = floor(at), 0 end

function warming.reach(l) return format('%.0f %.17g', ceil(l.free + l.part - at), l.stored) end

function warming.remember(l, reach, unknown)
  local micros, stored = match(reach, '^(%S+) (%S+)$')
  micros, stored = tonumber(micros), tonumber(stored)
  if micros and stored and at + micros > l.free then
    l.stored = min(stored, l.most)
    l.free, l.part = floor(at + micros), 0
  end
  if unknown then atLeast(l, now + AHEAD) end
end

function warming.record() return now end -- those of long ago are forgotten first

-- Each call is due at a bucket that is full again: only what was used more matters.
function warming.settle(l, cost, used) advance(l, max(0, used - cost) * l.a) end

return warming
end
