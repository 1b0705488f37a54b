-- take: give each request the next number of the line, and the wait until its
-- turn.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  micros per permit, may be fractional
--       2 burst           permits that an idle bucket holds
--       3 boundMicros     waits up to this are final; longer ones are entered
--                         in the waiting list and have to be claimed; -1: none
--                         is final
--       4 reachMicros     how far the line reached when the caller last saw it
--                         (due time of the last number minus now; negative when
--                         past); used only when there is no state
--       then four per request:
--       cost              permits, 1 to burst
--       maxWaitMicros     refuse, and consume nothing, beyond this; -1: beyond
--                         the longest line
--       id                names the ticket in the waiting list; not empty
--       keep              1: the ticket can be asked for again under its id,
--                         also when it is final; 0: it will be called at once
-- Reply epoch, reachMicros (of the line after this call), then three per request:
--       status            0 refused   would wait longer than maxWaitMicros
--                         1 final     sleep the wait, then call
--                         2 waiting   claim the id shortly before the wait ends
--       number            0 when refused
--       waitMicros        rounded up
-- Atomic over all requests, which are served in order. With keep 1, an id that
-- has a ticket of this cost gets the same again, whatever its wait, as long as it
-- can be used. With keep 0 only when that one waits and a new one would wait too.
-- Errors: BADARG, BADSTATE, WRONGTYPE; then nothing was changed.

limit()
local bound = number(3, 'boundMicros', -1)
local reach = number(4, 'reachMicros', -LONGEST_MICROS)
if (#ARGV - 4) % 4 ~= 0 or #ARGV < 8 then
  bad('BADARG', 'requests', 'groups of cost, maxWaitMicros, id, keep', #ARGV - 4)
end
local keeps = false
for i = 5, #ARGV, 4 do
  count(i, 'cost', 1, burst or 1)
  number(i + 1, 'maxWaitMicros', -1)
  if ARGV[i + 2] == '' then bad('BADARG', 'id', 'not empty', '') end
  keeps = count(i + 3, 'keep', 0, 1) == 1 or keeps
end
if problem then return problem end
load(math.min(reach, LONGEST_MICROS))
if problem then return problem end
begin()
if keeps then uses(WAITING, FREE, CLAIMED) end

local function known(member, keep)
  uses(WAITING, CLAIMED)
  local e = score(WAITING, member)
  if e and not dead(e, costof(member)) then return 2, e end
  if not keep then return end
  e = again(member, bound)
  if e then return 1, e end
end

local function request(cost, maxWait, id, keep)
  local member = entry(cost, id)
  if keep then
    local status, e = known(member, true)
    if status then return status, e, wait(e) end
  end
  local e, block = offer(cost)
  local w = wait(e)
  if w > (maxWait < 0 and LONGEST_MICROS or math.min(maxWait, LONGEST_MICROS)) then return 0, 0, w end
  if w > bound then
    local status, before = known(member, false)
    if status then return status, before, wait(before) end
    accept(e, cost, block)
    redis.call('ZADD', WAITING, e, member)
    return 2, e, w
  end
  accept(e, cost, block)
  s.final = math.max(s.final, e)
  if keep then remember(member, e) end
  return 1, e, w
end

local reply = { s.epoch, 0 }
for i = 5, #ARGV, 4 do
  local status, e, w = request(tonumber(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2], tonumber(ARGV[i + 3]) == 1)
  reply[#reply + 1] = status
  reply[#reply + 1] = e
  reply[#reply + 1] = w
end
save()
reply[2] = math.ceil(due(s.tail) - now)
return reply
