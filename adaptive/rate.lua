-- rate.lua: the state of one adaptive rate. It is included before each verb; it only
-- defines locals and calls nothing.
--
-- The rate that is in force belongs to the limiter. Each report brings it, so a rate that
-- somebody else set counts, too. The state holds the last decision, whether it is carried
-- out, and what was reported since:
--
--   version       number of the last decision, counted from 1; 0: there was none
--   rate          the rate of that decision, in permits per second
--   applied       the last version that is in force; below `version`: one is not yet
--   lowered       the last version that lowered the rate
--   loweredMicros when that version came into force or, until then, when it was decided.
--                 Calls that were sent until settleMicros later belong to its incident
--   sinceMicros   when the current round of counting began
--   used          permits of calls that got a response in this round
--   takenMicros   when a process last took over the task of setting the limit
--
-- Units: micros are whole microseconds of Redis's clock, or of a duration; rates are
-- permits per second. The state expires as long after the last report as the limit that
-- is set.

local STATE = KEYS[1]

-- How long a process may take to set the limit before another one takes over.
local LEASE_MICROS = 1000000

local MOST = 9007199254740991 -- the largest whole number that a double holds exactly

local FIELDS = { 'version', 'rate', 'applied', 'lowered', 'loweredMicros', 'sinceMicros', 'used', 'takenMicros' }

local now, problem
local s = {}        -- the state, by the names in FIELDS
local fresh = false -- there was no state

-- number reads a text as a finite number of at least `least`.
local function number(code, name, text, least)
  local x = tonumber(text or '')
  if not x or x ~= x or x < least or x > MOST then
    problem = problem or redis.error_reply(code .. ' ' .. name .. ' must be a number of at least ' ..
      least .. ', got "' .. tostring(text or 'nothing') .. '"')
    return least
  end
  return x
end

local function argument(i, name, least) return number('BADARG', name, ARGV[i], least) end

-- text writes a number without rounding.
local function text(x) return string.format('%.17g', x) end

-- load reads the clock and the state. If the clock stepped back, later moments in the state count
-- as now, so no incident is in the future.
local function load(settle)
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  local values = redis.call('HMGET', STATE, unpack(FIELDS))
  fresh = not values[1]
  for i, name in ipairs(FIELDS) do
    s[name] = fresh and 0 or number('BADSTATE', name, values[i], 0)
  end
  s.loweredMicros = math.min(s.loweredMicros, now)
  s.takenMicros = math.min(s.takenMicros, now)
  s.sinceMicros = fresh and now or math.min(s.sinceMicros, now + settle)
end

local function save(expiryMicros)
  local fields = {}
  for _, name in ipairs(FIELDS) do
    fields[#fields + 1] = name
    fields[#fields + 1] = text(s[name])
  end
  redis.call('HSET', STATE, unpack(fields))
  redis.call('PEXPIRE', STATE, math.ceil(expiryMicros / 1000))
end

-- news is how long from now on the refusals of calls belong to a known incident. It is negative if
-- a refusal of a call that is sent now is a new incident.
local function news(settle)
  if s.applied < s.lowered then return 0 end
  return s.loweredMicros + settle - now
end

local function reply(task, settle, before)
  return { task, s.version, news(settle), now, text(s.rate), text(before) }
end
