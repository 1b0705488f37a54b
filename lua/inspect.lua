-- inspect: look at the line as it is now, and change nothing.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  2 burst: as for take
-- Reply pairs of name and value:
--       tail              the last permit given out
--       reachMicros       due time of permit `tail` minus now; negative when past
--       waitMicros        what a ticket of cost 1 at the end of the line would
--                         wait now
--       waiting           entries in the waiting list
--       free              numbers that went back and are not used yet
--       intervalMicros    of the limit that the state was last used with, as text
--       burst             likewise
--       epoch             the moment at which the state was made; 0: there is none
--       live              processes that called within a minute, when last counted
--       resumeMicros      until the line goes on after an outage; 0: it does
--       pauseMicros       until a pause ends; 0: there is none
--       reason            of that pause, as text
--       setMicros         for how long a limit is in force that was set for all; 0: none
--                         is, -1: until it is set again
--       gen               how often final tickets were given other turns, since epoch
--       final             the highest number that became final
--       finalMicros       its due time minus now; negative when past
--       seenMicros        Redis's time
-- Errors: BADARG, BADSTATE, WRONGTYPE.

limit()
if problem then return problem end
load()
if problem then return problem end

local last = { interval, burst }
local lasts = s.setIntervalMicros > 0 and (s.setUntilMicros > 0 and s.setUntilMicros - now or -1) or 0
if not fresh then
  last = redis.call('HMGET', STATE, 'intervalMicros', 'burst')
end
local waiting, free = redis.call('ZCARD', WAITING), redis.call('ZCARD', FREE)
redis.call('ZCARD', CLAIMED) -- of another type: say so here too
return {
  'tail', s.tail,
  'reachMicros', math.ceil(due(s.tail) - now),
  'waitMicros', wait(s.tail + 1),
  'waiting', fresh and 0 or waiting,
  'free', fresh and 0 or free,
  'intervalMicros', string.format('%.17g', tonumber(last[1])),
  'burst', tonumber(last[2]),
  'epoch', fresh and 0 or s.epoch,
  'live', s.live,
  'resumeMicros', math.max(0, s.resumeMicros - now),
  'pauseMicros', math.max(0, s.pauseMicros - now),
  'reason', s.pauseMicros > now and redis.call('HMGET', STATE, 'reason')[1] or '',
  'setMicros', lasts,
  'gen', s.gen,
  'final', s.final,
  'finalMicros', math.ceil(due(s.final) - now),
  'seenMicros', now,
}
