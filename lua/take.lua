-- take: give each request the next number of the line, and the wait until its
-- turn.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  micros per permit, may be fractional
--       2 burst           permits that an idle bucket holds
--       3 reachMicros     when the last ticket is due that the caller knows to be
--                         final, minus now; negative when past. With "+" and
--                         laterMicros behind it: by how much later others may have
--                         final tickets, for the case that the state is lost
--       4 epoch           of the line when the caller last saw it; 0: never
--       5 seenMicros      Redis's time then; 0: never
--       6 clockMicros     Redis's time now, by the caller's own clock; 0: not known
--       7 member          names the process, up to 64 bytes; empty: it is neither
--                         counted nor known when it repeats a call
--       8 serial          of this call of the member, grows; a repeated call has
--                         that of the first; 0: not numbered, and not repeated
--       9 boundMicros     waits up to this are final; longer ones are entered
--                         in the waiting list and have to be claimed; -1: none
--                         is final
--       then four per request:
--       cost              permits, 1 to burst
--       maxWaitMicros     refuse, and consume nothing, beyond this; -1: beyond
--                         the longest line
--       id                names the ticket in the waiting list; not empty
--       keep              1: the ticket can be asked for again under its id,
--                         also when it is final; 0: it will be called at once
-- Reply epoch, seenMicros (Redis's time), reachMicros (due time of the last final
--       ticket minus now, rounded up; negative when past), live (processes of the
--       last minute), idle (permits that nobody used, ever), resumeMicros (until
--       the line goes on after an outage, 0 or more), plain (1: quick.lua will do),
--       pauseMicros (until a pause ends, 0 or more), gen (how often final tickets were
--       given other turns, since epoch), final (the number that reachMicros is of),
--       interval, fraction and burst (the limit that is in force: whole micros per
--       permit, billionths of one besides, permits);
--       then three per request:
--       status            0 refused   would wait longer than maxWaitMicros, or costs more
--                                     than the burst that is in force
--                         1 final     sleep the wait, then call
--                         2 waiting   claim the id shortly before the wait ends
--       number            0 when refused
--       waitMicros        rounded up
-- Atomic over all requests, which are served in order. With keep 1, an id that
-- has a ticket of this cost gets the same again, whatever its wait, as long as it
-- can be used. With keep 0 only when that one waits and a new one would wait too,
-- or when the call is a repeated one.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE (a copy of an earlier call than the
-- member's last); then nothing was changed.

introduce()
local bound = number(9, 'boundMicros', -1)
if (#ARGV - 9) % 4 ~= 0 or #ARGV < 13 then
  bad('BADARG', 'requests', 'groups of cost, maxWaitMicros, id, keep', #ARGV - 9)
end
local keeps = false
for i = 10, #ARGV, 4 do
  count(i, 'cost', 1, burst or 1)
  number(i + 1, 'maxWaitMicros', -1)
  if ARGV[i + 2] == '' then bad('BADARG', 'id', 'not empty', '') end
  keeps = count(i + 3, 'keep', 0, 1) == 1 or keeps
end
if problem then return problem end
load()
if problem then return problem end
begin()
if keeps or replay then
  uses(WAITING, FREE, CLAIMED)
  guard()
end

-- A trace holds where the final tickets with keep 0 begin: "<index>=<permit before>;"
-- for each that does not follow the one before it. "-" instead of the permit says
-- that there are none from there on.
local traced, last = {}, nil
local function leave(index, start, cost)
  if start ~= last then
    traced[#traced + 1] = string.format('%.0f=%s;', index, start and digits(start) or '-')
  end
  last = start and start + cost
end

-- recover finds the numbers that this call gave when it was carried out before,
-- by index. If nothing later was let through, the line is moved back as far as the
-- first of them needs to fit: nobody else is before the next.
local gave = {}
local function recover()
  local at, last, below, highest = {}, nil, 0, 0
  for index, start in string.gmatch(own.trace, '(%d+)=([%d-]+);') do
    at[tonumber(index)] = tonumber(start) or false
  end
  for i = 10, #ARGV, 4 do
    local index, cost = (i - 6) / 4, tonumber(ARGV[i])
    local start = at[index]
    if start == nil then start = last end
    last = start and start + cost
    if last and last <= s.final then
      gave[index], highest = last, last
      if at[index] then below = start end
    end
  end
  local late = math.ceil(now - due(below) - burst * interval)
  if highest > 0 and highest == mark() and late > 0 and below >= s.floor then rewind(late, below) end
end
if replay then recover() end

local function known(member, keep)
  uses(WAITING, CLAIMED)
  local e = score(WAITING, member)
  if e and not dead(e, costof(member)) then return 2, e end
  if not keep then return end
  e = again(member, bound)
  if e then return 1, e end
end

local function request(cost, maxWait, id, keep, index)
  local member = entry(cost, id)
  local before = gave[index]
  if not keep and before and fits(before, cost) then return 1, before, wait(before) end
  if keep or replay then
    local status, e = known(member, keep)
    if status then return status, e, wait(e) end
  end
  if cost > burst then return 0, 0, LONGEST_MICROS end -- of what was set for all
  local e, block = offer(cost)
  local w = wait(e)
  if replay and not (keep or before) and maxWait >= 0 then return 0, 0, w end -- as it was
  if w > (maxWait < 0 and LONGEST_MICROS or math.min(maxWait, LONGEST_MICROS)) then return 0, 0, w end
  if w > bound then
    local status, held = known(member, false)
    if status then return status, held, wait(held) end
    accept(e, cost, block)
    redis.call('ZADD', WAITING, e, member)
    return 2, e, w
  end
  accept(e, cost, block)
  finalize(e, cost, math.max(now, due(e)))
  if keep then remember(member, e) end
  return 1, e, w
end

local reply = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
for i = 10, #ARGV, 4 do
  local cost, keep, index = tonumber(ARGV[i]), tonumber(ARGV[i + 3]) == 1, (i - 6) / 4
  local status, e, w = request(cost, tonumber(ARGV[i + 1]), ARGV[i + 2], keep, index)
  leave(index, status == 1 and not keep and e - cost or nil, cost)
  reply[#reply + 1] = status
  reply[#reply + 1] = e
  reply[#reply + 1] = w
end
if caller.serial > 0 then trace = table.concat(traced) end
save()
return header(reply)
