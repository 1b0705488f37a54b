-- report: takes the results of a process's calls, and decides whether the rate changes.
--
-- KEYS  1 state of the adaptive rate (hash)
-- ARGV  1 rate            that is in force
--       2 floor  3 ceiling
--       4 decrease          factor at an incident, below 1
--       5 increase          permits per second
--       6 everyMicros       the length of a round
--       7 settleMicros      how long refusals after a decrease belong to its incident
--       8 expiryMicros      how long a rate that is set stays in force
--       9 used              permits of calls that got a response since the last report of
--                         this process
--      10 sentMicros        when the latest refused call was sent, on Redis's clock, or
--                         earlier; 0: no call was refused
--      11 lastsMicros       how much longer the override in force lasts; 0: it has no end,
--                         or there is none
-- Reply task              1: set the limit to `rate`, then call applied; 0: nothing to do
--       version           the number of the decision
--       newsMicros        refusals of calls that are sent up to this long from now belong
--                         to a known incident; negative: that moment is past
--       seenMicros        Redis's time
--       rate, before      the rate to set, and the one that is in force, as texts
-- Atomic. A second copy of a report finds the incident known, and counts `used` twice.
-- Errors: BADARG, BADSTATE, WRONGTYPE; then nothing was changed.

local rate = argument(1, 'rate', 0)
local floor = argument(2, 'floor', 0)
local ceiling = argument(3, 'ceiling', 0)
local decrease = argument(4, 'decrease', 0)
local increase = argument(5, 'increase', 0)
local every = argument(6, 'everyMicros', 1)
local settle = argument(7, 'settleMicros', 0)
local expiry = argument(8, 'expiryMicros', 1)
local used = argument(9, 'used', 0)
local sent = argument(10, 'sentMicros', 0)
local lasts = argument(11, 'lastsMicros', 0)
if problem then return problem end
load(settle)
if problem then return problem end

local task = 0
-- decide makes this process set the limit to a new rate.
local function decide(to)
  task = 1
  s.version, s.rate, s.takenMicros = s.version + 1, to, now
end

-- same compares rates: a limit stores an interval, so its rate is rounded.
local function same(a, b) return math.abs(a - b) <= 1e-9 * b end

local pending, lowering = s.applied < s.version, s.applied < s.lowered
s.used = s.used + used
if sent > 0 and not lowering and sent > s.loweredMicros + settle then
  s.loweredMicros, s.sinceMicros, s.used = now, now + settle, 0
  local to = math.max(floor, rate * decrease)
  if to < rate and not same(to, rate) then
    decide(to)
    s.lowered = s.version
  end
elseif not pending and now - s.sinceMicros >= every then
  -- The rate rises only if at least half of it was used.
  local to = rate
  if s.used >= rate / 2 * (now - s.sinceMicros) / 1000000 then to = math.max(floor, rate + increase) end
  to = math.min(to, ceiling)
  s.sinceMicros, s.used = now, 0
  if not same(to, rate) then decide(to) end
end
-- The process that was to set the limit has not done so, or the override needs renewal.
if task == 0 and now - s.takenMicros >= LEASE_MICROS and
  (pending or same(s.rate, rate) and lasts > 0 and lasts < expiry * 3 / 4) then
  task, s.takenMicros = 1, now
end
save(expiry)
return reply(task, settle, rate)
