-- claim: a call that waits is awake and asks for its turn. It gets the earliest
-- number of its cost that nobody has claimed; whoever stood there gets the
-- claimer's number instead. So nobody who is awake waits behind somebody who is
-- not, and a late, crashed or deleted caller costs no capacity.
--
-- A claimer without a number (it slept through its turn) leaves the holder one at the
-- end. The holder does not know, and comes at the time that it was told. Then it is told
-- the earliest number, to claim that when it is near; and so is who comes when its own
-- has passed. So a permit that was lost moves everybody behind it by one, and nobody to
-- the end.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  2 burst  3 reachMicros  4 epoch  5 seenMicros
--       6 clockMicros  7 member  8 serial  9 boundMicros: as for take
--       then two per claim:
--       cost              permits, 1 to burst
--       id                under which the ticket waits
-- Reply epoch, seenMicros, reachMicros, live, idle, resumeMicros, plain,
--       pauseMicros, gen, final, interval, fraction, burst: as of take;
--       then three per claim:
--       status            1 final     sleep the wait, then call
--                         2 waiting   the turn is still further away than
--                                     boundMicros: claim again when it is near
--       number
--       waitMicros        rounded up
-- Atomic over all claims, which are served in order. A claim whose reply was
-- lost may be repeated: it gets the same number for as long as that can be used.
-- An id that is not known (its number ran out, Redis lost its data, the caller
-- was suspended past its turn) gets a new number, then claims like any other.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE; then nothing was changed.

introduce()
local bound = number(9, 'boundMicros', -1)
if (#ARGV - 9) % 2 ~= 0 or #ARGV < 11 then
  bad('BADARG', 'claims', 'pairs of cost, id', #ARGV - 9)
end
for i = 10, #ARGV, 2 do
  count(i, 'cost', 1, burst or 1)
  if ARGV[i + 1] == '' then bad('BADARG', 'id', 'not empty', '') end
end
if problem then return problem end
load()
if problem then return problem end
begin()
uses(WAITING, FREE, CLAIMED)
guard()

local function claim(cost, id)
  local member = entry(cost, id)
  local own = score(WAITING, member)
  if own and dead(own, cost) then
    redis.call('ZREM', WAITING, member)
    lose(member, own)
    own = nil
  end
  if not own then
    local e = again(member, bound)
    if e then return 1, e, wait(e) end
  end

  local new, block = offer(cost)
  local early, holder = first(WAITING, dead, function(c) return c == cost end)
  local best = math.min(own or new, early or new, block and new or math.huge)
  local w = wait(best)

  if w > bound then -- still far: keep the number, or begin to wait under a new one
    if not own then
      accept(new, cost, block)
      redis.call('ZADD', WAITING, new, member)
      own = new
    end
    if displaced(member, own) then own = best end
    return 2, own, wait(own)
  end

  if best == early and holder ~= member then -- change places with the holder
    if not own then
      accept(new, cost, block)
      own = new
    end
    redis.call('ZADD', WAITING, own, holder)
    redis.call('ZREM', WAITING, member)
    if wait(own) > bound then redis.call('ZADD', CLAIMED, own, moved_to(holder)) end
  elseif best == own then
    redis.call('ZREM', WAITING, member)
  else -- a free or new number is earlier: what it held goes back
    accept(new, cost, block)
    if own then
      redis.call('ZREM', WAITING, member)
      giveback(own, cost)
    end
  end
  if best ~= new and not fits(best, cost) then wind(best, cost) end
  finalize(best, cost, math.max(now, due(best)))
  remember(member, best)
  return 1, best, wait(best)
end

local reply = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
for i = 10, #ARGV, 2 do
  local status, e, w = claim(tonumber(ARGV[i]), ARGV[i + 1])
  reply[#reply + 1] = status
  reply[#reply + 1] = e
  reply[#reply + 1] = w
end
save()
return header(reply)
