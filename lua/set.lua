-- set: the limit of the whole fleet becomes another one, until a moment or until it is
-- set again, whatever limit the callers work with. Turns follow at once, in order.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  2 burst  3 reachMicros  4 epoch  5 seenMicros
--       6 clockMicros  7 member  8 serial: as for take
--       9 setIntervalMicros   as intervalMicros; 0: the limit is that of the callers
--                             again
--       10 setBurst           as burst
--       11 setMicros          for so long; 0: until it is set again
--       12 channel            as for pause
-- Reply epoch, seenMicros, reachMicros, live, idle, resumeMicros, plain, pauseMicros,
--       gen, final, interval, fraction, burst: as of take
-- Atomic. It may be repeated.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE; then nothing was changed.

introduce()
local setInterval = tonumber(ARGV[9])
if setInterval ~= 0 then number(9, 'setIntervalMicros', 1) end
local setBurst = count(10, 'setBurst', 1, 1000000000)
local lasts = number(11, 'setMicros', 0)
if #ARGV ~= 12 then bad('BADARG', 'arguments', '12', #ARGV) end
if not problem and setBurst * setInterval > LONGEST_MICROS then
  bad('BADARG', 'setBurst', 'at most 100 years of permits', ARGV[10])
end
if problem then return problem end
load()
if problem then return problem end
uses(WAITING, FREE, CLAIMED)
begin()
guard()

s.setIntervalMicros, s.setBurst, s.setUntilMicros = setInterval, setBurst, 0
if lasts > 0 and setInterval > 0 then s.setUntilMicros = math.ceil(now + math.min(lasts, LONGEST_MICROS)) end
moved = true
relimit(now)
overflow()
redis.call('HSET', STATE, 'channel', ARGV[12])
save()
return header({})
