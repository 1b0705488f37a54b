-- meter.lua: what the meters of all kinds of limit have in common. A meter knows what the provider of a
-- limit still allows. It has these functions; METER has the versions that most kinds use:
--
--   next      the moment, not before `at`, at which so many permits may be spent
--   spend     spends them at that moment
--   ahead     when a call gets its permits after so many permits of others
--   left      permits that could be spent now
--   usable    until when permits that were just spent may be used
--   overflows reports whether a permit that others could use is lost before a moment
--   lost      when a permit is lost; only meters whose permits come one after the other have it
--   most      the highest cost of a call
--   pace      how many micros a permit takes
--   unspend   takes back the last spending, or a part of it, and reports whether it could
--   record    the score of a spending in the log, if its cost is settled later; otherwise 0
--   settle    replaces the cost of a spending, and reports whether it was known
--   change    puts another `a` and `b` in force
--   hold      begins a pause: no permit before a moment. It returns how far that moved the meter
--   release   ends a pause
--   close     grants none before a moment, as others may have spent permits that Redis does not know
--   move      moves all moments after the clock has stepped
--   life      for how long the state is worth keeping
--   fresh     begins a new state
--   reach     what a caller stores of the state and sends back, in case Redis loses it
--   remember  takes over what a caller sends back
--   pack      returns the field `meter` of the state
--   unpack    reads that field

-- once returns a function that makes its value when it is first called: making functions takes Redis's
-- time.
local function once(make)
  local made
  return function()
    made = made or make()
    return made
  end
end

-- stepped is how far Redis's clock has stepped since the last use of a limit. It steps back, or it steps
-- ahead by more than the time that the caller measured since its last reply.
local function stepped(seen, clock)
  if seen > now then return now - seen end
  local ahead = min(now - seen, now - clock)
  return clock > 0 and ahead > STEP and ahead or 0
end

-- Once a script has written or removed something, a full Redis refuses none of its writes. So an ask
-- tries to write before it removes something (`full`). Otherwise some calls would have turns here, while
-- other processes see Redis as unreachable and use their shares.
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

-- METERS has a meter for each kind of the limits in this script call.
local METERS, kinds = {}, {}
for j = 1, COUNT do kinds[ARGV[HEAD + WIDTH * (j - 1) + KIND]] = true end

-- unpackInto reads a packed field with several numbers into a limit, by their names. It returns an error
-- text if the field is wrong.
local function unpackInto(l, field, names, text)
  local words = { match(text, '^(%S+)' .. rep(' (%S+)', #names - 1) .. '$') }
  for k = 1, #names do
    local value = tonumber(words[k])
    if not finite(value) then return format('BADSTATE %s: want %d values, got %s', field, #names, text) end
    l[names[k]] = value
  end
end

-- Paced limits and limits with warm-up store nextFreeTicketMicros: the moment at which all spent permits
-- have come. Its fraction is stored apart, since a double of today's micros is exact to a quarter of a
-- micro only.
local function advance(l, micros)
  local part = l.part + micros
  l.free, l.part = l.free + floor(part), part % 1
end

-- atLeast empties the bucket so far that the spent permits have come no earlier than at a moment. From
-- then on the last spending is part of that, and does not come back.
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

-- release ends a pause at whose end so many micros of permits were to be there. If the end was near,
-- turns may have been granted for it. Then the meter does not step back, and the next turns come behind
-- these turns.
local function release(l, permits)
  local turnsOut = l.paused <= now + AHEAD and l.free + l.part > l.paused - permits
  if not turnsOut then advance(l, -min(l.held, l.paused - now)) end
end
