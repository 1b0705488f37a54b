-- slots.lua: at most `a` permits in use at once. A turn holds its slots until its call is done,
-- or its process is dead. The log has who holds some, "<process>:<number>:<cost>:<what>", and
-- since when, as score. `used` is how many permits they hold together, and `mean` for how
-- long a call holds them, of late. Nobody polls: who waits is told when there is room.

METERS.s = function()

local slots = {}
local DAY, UNKNOWN, UNSURE, WAKES = 86400000000, 8000000, 3000000, 64 -- micros; places
local USABLE, MOST = 1000000, 1000

-- checked: when the dead were looked for. till: none is given before, as data was lost, until
-- those who hold some have told so. woken: the last tag that was told that there is room.
function slots.unpack(l, text)
  local used, mean, checked, till, woken = match(text or '0 0 0 0 0', '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  l.used, l.mean, l.checked, l.till, l.woken = tonumber(used), tonumber(mean), tonumber(checked), tonumber(till), tonumber(woken)
  if not (l.used and l.mean and l.checked and l.till and l.woken and l.used >= 0) then
    return 'BADSTATE meter: want five numbers, got ' .. text
  end
end

function slots.pack(l) return format('%.0f %.0f %.0f %.0f %.0f', l.used, l.mean, l.checked, l.till, l.woken) end

local function holder(id, cost, what) return format('%s:%.0f:%s', id, cost, what) end

-- MARGIN is by how much a caller may be wrong about Redis's time, and a turn be due ahead.
local MARGIN = way + (tonumber(ARGV[4]) or 0)

-- leaves takes a holder off; nil: it holds none. One that was given its slots after the caller has
-- sent its message keeps them, as that is a copy that comes late: true.
local function leaves(l, who, sent)
  local since = l.used > 0 and call('ZSCORE', l.log, who)
  if not since then return end
  if sent and sent > 0 and since - MARGIN > sent and since - MARGIN <= now then return nil, true end
  call('ZREM', l.log, who)
  l.used, l.woken = max(0, l.used - costOf(who)), 0
  if l.used == 0 then l.renews = true end
  return tonumber(since)
end

-- sweep takes those off whose processes are dead, or whom nobody knows. It looks once after
-- each death.
local function sweep(l)
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
    if beat and beat < 0 or not beat and now - holders[k + 1] > UNKNOWN then
      leaves(l, holders[k])
      gone = true
    end
  end
  if gone then sooner(l) end
end

-- ahead: where all are in use, nobody knows when one is done; it is beyond any horizon.
function slots.ahead(l, before, cost)
  local over = l.used + before + cost - l.a
  if over <= 0 then return max(at, l.till) end
  return max(l.till, at + max(horizon + 1, ceil(over / l.a * l.mean)))
end

function slots.next(l, cost, from)
  if l.used + cost > l.a then sweep(l) end
  return max(from, slots.ahead(l, 0, cost))
end

function slots.spend(l, cost, due, id, what)
  if not id then return end -- that was without Redis
  if l.used == 0 then l.renews = true end
  if call('ZADD', l.log, 'NX', format('%.0f', floor(due)), holder(id, cost, what)) == 1 then l.used = l.used + cost end
  l.logged = true
end

-- asks lets go of what a call was given that asks again. True: it may hold that still.
function slots.asks(l, id, cost, what)
  local left, late = leaves(l, holder(id, cost, what), l.clock)
  if left then sooner(l) end
  return late
end

-- done ends a turn, and returns how many permits are free for that.
function slots.done(l, process, number, cost, what)
  local since = leaves(l, holder(process .. ':' .. number, cost, what), l.clock)
  if not since then return 0 end
  local held = max(0, now - since)
  l.mean = l.mean == 0 and held or floor(l.mean + (held - l.mean) / 8)
  sooner(l)
  return cost
end

-- keep notes again that a turn holds its slots, where that was lost, and returns how many
-- permits, if there is room for them.
function slots.keep(l, process, which, cost, what)
  local number, since = match(which, '^(%d+) (%d+)$')
  if not number then return 0 end
  slots.spend(l, cost, min(tonumber(since), now), process .. ':' .. number, what)
  return l.used <= l.a and cost or 0
end

-- forget: another server may have missed which calls are done. Who holds slots still tells so.
function slots.forget(l)
  if l.used > 0 then call('UNLINK', l.log) end
  l.used, l.till = 0, max(l.till, ceil(at + UNSURE))
end

-- wake tells the processes of the first who wait, as far as there is room for them. The dead
-- leave their slots and places.
function slots.wake(l)
  if l.card > 0 then sweep(l) end
  local free = l.a - l.used
  if l.card == 0 or free <= 0 or l.till > now or l.paused > now then
    l.woken = 0
    return
  end
  local places, told, news = call('ZRANGE', l.places, 0, min(free, WAKES) - 1, 'WITHSCORES'), {}, {}
  for k = 1, #places, 2 do
    free = free - costOf(places[k])
    if free < 0 then break end
    local process, tag = processOf(places[k]), tonumber(places[k + 1])
    if not told[process] and dead(l, process) then
      clear(l, process, {}, true)
      return slots.wake(l)
    end
    told[process] = (told[process] or 0) + 1
    if tag > l.woken then l.woken, news[process] = tag, true end
  end
  for process in pairs(news) do tell(l, 'room:' .. process .. ':' .. told[process]) end
end

-- holders is how many hold some, and of each who and for how long: without the dead, who are gone.
function slots.holders(l, gone)
  sweep(l)
  local holders = l.used > 0 and call('ZRANGE', l.log, 0, MOST - 1, 'WITHSCORES') or {}
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

function slots.unspend() end

function slots.change(l) l.woken = 0 end

function slots.hold() return 0 end

function slots.release() end

function slots.move(l, micros)
  l.checked, l.till = 0, l.till > 0 and l.till + micros or 0
end

function slots.pace(l) return l.mean / l.a end

function slots.life(l) return l.used > 0 and DAY or 0 end

function slots.fresh() end

-- reach: how many are in use, and 0, less what has passed since. After 30 s it proves no loss: they
-- may have been done since, and the state expired.
function slots.reach(l) return format('%.0f 0', l.used) end

function slots.remember(l, reach, unknown)
  local used, heard = match(reach, '^(%d+) (-?%d+)$')
  if unknown or tonumber(used or 0) > 0 and tonumber(heard) > -3 * RENEW then l.till = max(l.till, ceil(at + UNSURE)) end
end

function slots.record() end

function slots.settle() end

return slots
end
