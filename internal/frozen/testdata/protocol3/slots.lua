-- slots.lua: at most `a` permits in use at once. A turn holds its slots until its call is done, or its
-- process is dead. The log has the calls that hold slots, "<process>:<number>:<cost>:<what>". The score
-- is the moment since when; it is negative if the slots were taken away. Nobody polls: see room.lua.

if kinds.s then

local slots = { tells = true, close = nothing }
local DAY, FREED, UNKNOWN, UNSURE, MOMENT = 86400000000, 600000000, 8000000, 3000000, 300000 -- micros
local USABLE, MOST = 1000000, 1000
slots.MOMENT = MOMENT

-- used: how many permits are held. mean: for how long recent calls held them. checked: the last sweep for
-- dead processes. till: after a loss of data, no slot is granted before this moment, so that processes
-- can report their slots. woken: the highest tag whose process was notified that slots are free.
local PACKED = { 'used', 'mean', 'checked', 'till', 'woken' }

function slots.unpack(l, text) return unpackInto(l, 'meter', PACKED, text or '0 0 0 0 0') end
function slots.pack(l) return format('%.0f %.0f %.0f %.0f %.0f', l.used, l.mean, l.checked, l.till, l.woken) end

-- release frees the slots of a call, and returns the moment since when the call held them; nil if it
-- holds none. If the slots were granted after the caller sent its message, the message is a late copy,
-- and the call keeps its slots. Then release returns true, too. (A copy was sent before the grant, since
-- its way to Redis takes longer than a caller is wrong about Redis's time. Any other message was sent
-- after the reply.)
local function release(l, who, sent)
  local since = l.entries > 0 and tonumber(call('ZSCORE', l.log, who))
  if not since then return end
  local moment = math.abs(since)
  if sent and sent > 0 and moment > sent and moment <= now then return nil, true end
  l.entries = l.entries - erase('ZREM', l.log, who)
  if since < 0 then return end
  l.used, l.woken = max(0, l.used - costOf(who)), 0
  if l.used == 0 then l.renews = true end
  return since
end

-- sweep frees the slots of processes that are dead or unknown. It checks once after each death.
function slots.sweep(l)
  local last = call('ZRANGE', l.processes, 0, 0, 'WITHSCORES')
  local died = last[2] and -tonumber(last[2]) or 0
  if l.used == 0 or died < l.checked and now - l.checked < UNKNOWN then return end
  l.checked = now
  local beats, gone = {}, false
  local holders = call('ZRANGE', l.log, 0, -1, 'WITHSCORES')
  for k = 1, #holders, 2 do
    local process = processOf(holders[k])
    beats[process] = beats[process] or call('ZSCORE', l.processes, process) or 'none'
    local beat = tonumber(beats[process])
    if tonumber(holders[k + 1]) < 0 then
      if now + holders[k + 1] > FREED then release(l, holders[k]) end
    elseif beat and beat < 0 or not beat and now - holders[k + 1] > UNKNOWN then
      release(l, holders[k])
      gone = true
    end
  end
  if gone then sooner(l) end
end

-- While all slots are in use, nobody knows when one is free: the moment is beyond any horizon.
function slots.ahead(l, before, cost)
  local over = l.used + before + cost - l.a
  if over <= 0 then return max(at, l.till) end
  return max(l.till, at + max(horizon + 1, ceil(over / l.a * l.mean)))
end

function slots.next(l, cost, from)
  if l.used + cost > l.a then slots.sweep(l) end
  return max(from, slots.ahead(l, 0, cost))
end

function slots.spend(l, cost, since, id, what)
  if not id then return end -- a spending without Redis
  if l.used == 0 then l.renews = true end
  local who = format('%s:%.0f:%s', id, cost, what)
  if call('ZADD', l.log, 'NX', format('%.0f', min(since, now)), who) == 1 then l.used, l.entries = l.used + cost, l.entries + 1 end
  l.logged = true
end

-- asks frees the slots of a call that asks again. It returns true if the ask is a late copy, and the call
-- holds them.
function slots.asks(l, who)
  local left, late = release(l, who, l.clock)
  if left then sooner(l) end
  return late
end

-- done ends a turn, and returns how many permits that frees.
function slots.done(l, who)
  local since = release(l, who, l.clock)
  if not since then return 0 end
  local held = max(0, now - since)
  l.mean = l.mean == 0 and held or floor(l.mean + (held - l.mean) / 8)
  sooner(l)
  return costOf(who)
end

-- free takes slots away from a call that is not done, and returns how many. The call cannot take them
-- back until it is done, or until a sweep after ten minutes.
function slots.free(l, who)
  if (tonumber(call('ZSCORE', l.log, who)) or 0) < 0 then return 0 end
  local freed = slots.done(l, who)
  if freed > 0 then
    l.entries = l.entries + call('ZADD', l.log, format('%.0f', -now), who)
    l.renews, l.logged = true, true
  end
  return freed
end

-- keep notes that a turn still holds its slots, in case Redis lost that. It returns how many permits, if
-- they are within the limit.
function slots.keep(l, who, since)
  if not since then return 0 end
  local id, cost, what = match(who, '^([^:]*:[^:]*):(%d+):(.*)$')
  slots.spend(l, tonumber(cost), since, id, what)
  local kept = tonumber(call('ZSCORE', l.log, who))
  return kept and kept > 0 and l.used <= l.a and tonumber(cost) or 0
end

-- forget empties the log, as another server may have missed which calls are done. Processes report the
-- slots that they still hold. Entries of slots that were taken away stay; they come first.
function slots.forget(l)
  local freed = l.entries > 0 and call('ZCOUNT', l.log, '-inf', '(0') or 0
  if l.entries > freed then erase('ZREMRANGEBYRANK', l.log, freed, -1) end
  l.entries = freed
  l.used, l.till = 0, max(l.till, ceil(at + UNSURE))
end

-- holders returns how many calls hold slots, then for each call its name and how long it has held them.
-- It skips calls that a sweep has removed (`gone`).
function slots.holders(l, gone)
  slots.sweep(l)
  local holders = l.used > 0 and call('ZRANGEBYSCORE', l.log, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, MOST) or {}
  local held = { 0 }
  for k = 1, #holders, 2 do
    if not gone[holders[k]] then
      held[1] = held[1] + 1
      held[#held + 1], held[#held + 2] = holders[k], format('%.0f', max(0, now - holders[k + 1]))
    end
  end
  return held
end

function slots.left(l) return l.till > now and 0 or l.a - l.used end
function slots.usable(_, _, due) return due + USABLE end
function slots.overflows() return true end
function slots.change(l) l.woken = 0 end

-- During a pause no call is notified of free slots.
function slots.hold(l)
  if l.card > 0 then slots.sweep(l) end
  l.woken = 0
  return 0
end

function slots.move(l, micros)
  l.checked, l.till = 0, l.till > 0 and l.till + micros or 0
end

function slots.pace(l) return l.mean / l.a end
function slots.life(l) return l.used > 0 and DAY or l.entries > 0 and FREED or 0 end

-- reach has the slots in use, and 0, from which callers take the time that has passed. After 30 s it
-- proves no loss of data: the calls may be done, and the state expired. Its third number is micros until
-- a process must look again, because a notified call has not asked, or a pause ends then. 0: no process
-- must.
function slots.reach(l)
  local look = 0
  if l.card > 0 and l.used < l.a then
    look = max(l.till, l.paused) - at
    if look <= 0 then look = l.woken > 0 and MOMENT or 0 end
  end
  return format('%.0f 0 %.0f', l.used, ceil(look))
end

-- remember closes the limit after a loss of data, as long as the new state is young. After that, all
-- processes have reported their slots, and the report of a late process adds nothing.
function slots.remember(l, reach, unknown)
  local used, heard = match(reach, '^(%d+) (-?%d+)')
  local from = unknown and at or min(at, l.epoch + way)
  local brings = tonumber(used or 0) > 0 and tonumber(heard) > -3 * RENEW
  if (unknown or brings) and from + UNSURE > at then l.till = max(l.till, ceil(from + UNSURE)) end
end

METERS.s = setmetatable(slots, METER)
end
