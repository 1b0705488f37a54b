-- pause: nothing is due before a moment, as the provider asked for it. Everybody's turn
-- moves later by the time that is still to go, in order; then the bucket is empty, so
-- that calls come at the pace of the rate again, and not all at once.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  2 burst  3 reachMicros  4 epoch  5 seenMicros
--       6 clockMicros  7 member  8 serial: as for take
--       9 pauseMicros     from now until that moment. Of several pauses the one that
--                         ends last counts; they do not add up
--       10 reason         for people, up to 256 bytes
--       11 channel        those who have final tickets hear there that these are due
--                         later: what a reply begins with, joined by spaces, and the key
--                         of the state
-- Reply epoch, seenMicros, reachMicros, live, idle, resumeMicros, plain, pauseMicros,
--       gen, final, interval, fraction, burst: as of take
-- Atomic. Repeated, it is a pause from then on.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE; then nothing was changed.

introduce()
local rest = math.min(number(9, 'pauseMicros', 0), LONGEST_MICROS)
local reason, channel = ARGV[10], ARGV[11]
if #ARGV ~= 11 then bad('BADARG', 'arguments', '11', #ARGV) end
if #(reason or '') > 256 then bad('BADARG', 'reason', 'at most 256 bytes', reason) end
if problem then return problem end
load()
if problem then return problem end
uses(WAITING, FREE, CLAIMED)
begin()
guard()

-- gone is the last permit that is not used after the pause: it is due now or was before,
-- and no number that waits has it. What overflowed must not come back with the line.
local function gone()
  local last = available()
  local head = redis.call('ZRANGE', WAITING, 0, SCAN - 1, 'WITHSCORES')
  for i = 1, #head, 2 do
    local cost, e = costof(head[i]), tonumber(head[i + 1])
    if cost and not dead(e, cost) then last = math.min(last, e - cost) end
  end
  return math.max(last, s.floor)
end

local function pause(last, moment)
  if last > s.tail then
    unused(last - s.tail)
    s.tail = last
  end
  s.final, s.floor = math.max(s.final, last), last
  local late = math.ceil(moment - due(last + 1))
  late = math.min(late, math.floor(now + LONGEST_MICROS - due(s.tail)))
  if late > 0 then s.anchorMicros = s.anchorMicros + late end
  s.pausedMicros = (s.pauseMicros > now and s.pausedMicros or 0) + math.max(0, late)
  s.pauseMicros, s.gen, moved, turned = moment, s.gen + 1, true, true
end

local moment = math.ceil(now + rest)
if moment <= math.max(now, s.pauseMicros) then
  save()
  return header({})
end
pause(gone(), moment)
redis.call('HSET', STATE, 'reason', reason, 'channel', channel)
save()
return header({})
