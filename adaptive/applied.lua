-- applied: a process has set the limit to the rate of a decision. A refusal of a
-- call that is sent from now on can be a new incident.
--
-- KEYS  1 state of the adaptive rate (hash)
-- ARGV  1 version         of the decision
--       2 settleMicros  3 expiryMicros: as for report
-- Reply task, version, newsMicros, seenMicros, rate, before: as for report. The task is 1
--       if there is a later decision, which this process may have overwritten.
-- Atomic. It is safe to send it twice.
-- Errors: BADARG, BADSTATE, WRONGTYPE; then nothing was changed.

local version = argument(1, 'version', 0)
local settle = argument(2, 'settleMicros', 0)
local expiry = argument(3, 'expiryMicros', 1)
if problem then return problem end
load(settle)
if problem then return problem end

local task = 0
if fresh then return reply(0, settle, s.rate) end -- the decision was lost; the limit that is set stays
if version < s.version then
  task, s.takenMicros = 1, now
elseif s.applied < s.version then
  s.sinceMicros, s.used = now, 0
  if s.applied < s.lowered then
    s.loweredMicros, s.sinceMicros = now, now + settle
  end
  s.applied = s.version
end
save(expiry)
return reply(task, settle, s.rate)
