-- meter.lua: what the meters of all kinds of limit have in common. A meter knows what the provider
-- of a limit still allows. It has these functions, of which METER has what most kinds do:
--
--   next      the moment, not before `at`, at which so many permits may be spent
--   spend     spends them then
--   ahead     when a call gets its permits after so many permits of others
--   left      permits that could be spent now
--   usable    until when permits that were just spent may be used
--   overflows reports whether a permit that others could use is lost before a moment
--   lost      when a permit is lost; only of a meter whose permits come one after the other
--   most      the highest cost of a call
--   pace      how many micros a permit takes
--   unspend   takes the last spending back, or a part of it; true: it could
--   record    the score under which a spending is kept in the log whose cost is settled later, or 0
--   settle    replaces the cost of a spending; true: it was known
--   change    another `a` and `b`
--   hold      a pause begins: none before a moment. It returns how far the meter has moved for that
--   release   a pause ends
--   close     none before a moment, as others may have spent permits that Redis does not know of
--   move      the clock has stepped
--   life      for how long the state is worth keeping
--   fresh     the state is new
--   reach     what a caller keeps of the state and brings back, in case Redis loses it …
--   remember  … and then the meter takes it over
--   pack      the field `meter` of the state, and unpack reads it

-- once returns a function that makes something when it is needed first: making functions takes Redis's time.
local function once(make)
  local made
  return function()
    made = made or make()
    return made
  end
end

-- stepped is by how much Redis's clock has stepped since a limit was used last: back, or ahead by
-- more than the time that the caller has measured since it heard of the limit.
local function stepped(seen, clock)
  if seen > now then return now - seen end
  local ahead = min(now - seen, now - clock)
  return clock > 0 and ahead > STEP and ahead or 0
end

-- Once a script has written or removed something, a full Redis refuses none of its writes. So an ask tries to
-- write before it removes something (`full`). Otherwise some calls would have turns here, while other
-- processes treat Redis as away and use their shares.
local full = false

local function erase(...)
  if full then call('ZADD', KEYS[2], 'XX', '0', '') end
  full = false
  return call(...)
end

local function nothing() end
local function zero() return 0 end
local METER = {
  change = nothing, release = nothing, move = nothing, fresh = nothing, unspend = nothing, settle = nothing, pack = nothing, hold = zero, record = zero,
  overflows = function() return false end,
  usable = function(_, _, due) return due end,
  most = function(l) return l.a end,
  pace = function(l) return l.a end,
  close = function(l, moment) l.paused = max(l.paused, moment) end,
}
METER.__index = METER

-- METERS has the meters of those kinds that the limits of this call have.
local METERS, kinds = {}, {}
for j = 1, COUNT do kinds[ARGV[HEAD + WIDTH * (j - 1) + KIND]] = true end

-- unpackInto reads a field that packs several numbers into a limit, by their names. It returns what is wrong.
local function unpackInto(l, field, names, text)
  local words = { match(text, '^(%S+)' .. rep(' (%S+)', #names - 1) .. '$') }
  for k = 1, #names do
    local value = tonumber(words[k])
    if not finite(value) then return format('BADSTATE %s: want %d values, got %s', field, #names, text) end
    l[names[k]] = value
  end
end

-- Paced limits and limits with warm-up keep nextFreeTicketMicros: the moment at which all permits
-- that were spent have come. Its fraction is kept apart, since a double of today's micros is exact
-- to a quarter of a micro only.
local function advance(l, micros)
  local part = l.part + micros
  l.free, l.part = l.free + floor(part), part % 1
end

-- atLeast empties the bucket so far that its permits have come at a moment. What was spent last is part
-- of that from then on, and does not go back.
local function atLeast(l, free)
  if l.free + l.part < free then
    l.free = floor(free)
    l.part = free - l.free
    l.last = ''
  end
end

local function hold(l, free)
  local held = max(0, free - l.free - l.part)
  atLeast(l, free)
  return held
end

-- release ends a pause at whose end so many micros of permits were to be there. Turns may have been
-- given for that end, if it was near: then the meter does not step back, and the next turns come
-- behind those.
local function release(l, permits)
  local turnsOut = l.paused <= now + AHEAD and l.free + l.part > l.paused - permits
  if not turnsOut then advance(l, -min(l.held, l.paused - now)) end
end
