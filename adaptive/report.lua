-- report: what a process saw of the answers to its calls, and what is to be done about it.
--
-- KEYS  1 state of the adaptive rate (hash)  2 state of the line (hash): read only
-- ARGV  1 ownRate         of the limiter, where no limit is set for all
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
-- Reply task              1: set the limit to `rate`, then call applied; 0: nothing to do
--       version           of the decision
--       newsMicros        refusals of calls that were sent up to so long from now on tell
--                         nothing new; negative when past
--       seenMicros        Redis's time
--       rate, before      the rate to set, and the one that is in force, as texts
-- Atomic. A copy finds the incident known and counts used once more.
-- Errors: BADARG, BADSTATE, WRONGTYPE; then nothing was changed.

local own = argument(1, 'ownRate', 0)
local floor = argument(2, 'floor', 0)
local ceiling = argument(3, 'ceiling', 0)
local decrease = argument(4, 'decrease', 0)
local increase = argument(5, 'increase', 0)
local every = argument(6, 'everyMicros', 1)
local settle = argument(7, 'settleMicros', 0)
local expiry = argument(8, 'expiryMicros', 1)
local used = argument(9, 'used', 0)
local sent = argument(10, 'sentMicros', 0)
if problem then return problem end
load(settle)
if problem then return problem end

-- inforce is the rate that the line goes by, and for how long if one is set.
local function inforce()
  local set = redis.call('HMGET', LINE, 'setIntervalMicros', 'setUntilMicros')
  local interval = number('BADSTATE', 'setIntervalMicros', set[1] or '0', 0)
  local ends = number('BADSTATE', 'setUntilMicros', set[2] or '0', 0)
  if interval == 0 or ends > 0 and ends <= now then return own end
  return 1000000 / interval, ends > 0 and ends - now or nil
end

local rate, lasts = inforce()
if problem then return problem end

local task = 0
local function decide(to)
  task = 1
  s.version, s.rate, s.takenMicros = s.version + 1, to, now
end

-- same: the line holds an interval, and so a rate that is rounded.
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
  (pending or same(s.rate, rate) and lasts and lasts < expiry * 3 / 4) then
  task, s.takenMicros = 1, now
end
save(expiry)
return reply(task, settle, rate)
