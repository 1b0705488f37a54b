-- resume: a pause ends now. Everybody's turn moves earlier by what was still to go of it,
-- as far as the pause had moved it.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  2 burst  3 reachMicros  4 epoch  5 seenMicros
--       6 clockMicros  7 member  8 serial: as for take
--       9 channel         as for pause
-- Reply epoch, seenMicros, reachMicros, live, idle, resumeMicros, plain, pauseMicros,
--       gen, final, interval, fraction, burst: as of take
-- Atomic. Where there is no pause, it changes nothing; so it may be repeated.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE; then nothing was changed.

introduce()
if #ARGV ~= 9 then bad('BADARG', 'arguments', '9', #ARGV) end
if problem then return problem end
load()
if problem then return problem end
uses(WAITING, FREE, CLAIMED)
begin()

local rest = s.pauseMicros - now
if rest <= 0 then
  save()
  return header({})
end
s.anchorMicros = s.anchorMicros - math.min(rest, s.pausedMicros)
s.pauseMicros, s.pausedMicros, s.gen, moved, turned = 0, 0, s.gen + 1, true, true
if s.resumeMicros > now then hold() end
redis.call('HSET', STATE, 'channel', ARGV[9])
save()
return header({})
