-- report: what a process saw of the answers to its calls, and what is to be done about it.
--
-- KEYS  1 state of the adaptive rate (hash)
-- ARGV  1 rate            that is in force
--       2 floor  3 ceiling
--       4 decrease          factor at an incident, below 1
--       5 increase          permits per second
--       6 everyMicros       of a round
--       7 settleMicros
--       8 expiryMicros      of limits that are set
--       9 used              permits of calls that were answered since the last report of
--                         this process
--      10 sentMicros        when the last call was sent that was refused, on Redis's clock,
--                         or earlier; 0: none was
--      11 lastsMicros       for how long the limit is set that is in force; 0: until it is
--                         set again, or it is not set
-- Reply task              1: set the limit to `rate`, then call applied; 0: nothing to do
--       version           of the decision
--       newsMicros        refusals of calls that were sent up to so long from now on tell
--                         nothing new; negative when past
--       seenMicros        Redis's time
--       rate, before      the rate to set, and the one that is in force, as texts
-- Atomic. A copy finds the incident known and counts used once more.
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
local function decide(to)
  task = 1
  s.version, s.rate, s.takenMicros = s.version + 1, to, now
end

-- same: a limit holds an interval, and so a rate that is rounded.
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
  -- A rate that nobody needs is not raised: half of it was used, at least.
  local to = rate
  if s.used >= rate / 2 * (now - s.sinceMicros) / 1000000 then to = math.max(floor, rate + increase) end
  to = math.min(to, ceiling)
  s.sinceMicros, s.used = now, 0
  if not same(to, rate) then decide(to) end
end
-- Whoever took a decision on is gone, or what is in force would end too soon.
if task == 0 and now - s.takenMicros >= LEASE_MICROS and
  (pending or same(s.rate, rate) and lasts > 0 and lasts < expiry * 3 / 4) then
  task, s.takenMicros = 1, now
end
save(expiry)
return reply(task, settle, rate)
