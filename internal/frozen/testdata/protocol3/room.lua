-- room.lua: notifies the first calls that wait for slots when some are free, and removes places of dead
-- processes from the head of the queue.

local WAKES, SCAN_PLACES = 64, 64 -- places

-- clear removes the places of a process from the first SCAN_PLACES of the queue, except those of calls in
-- `asking`. If the process is dead, the flows of these places get a refund.
local function clear(l, process, asking, isDead)
  local gone, places = {}, call('ZRANGE', l.places, 0, SCAN_PLACES - 1, 'WITHSCORES')
  for k = 1, #places, 2 do
    local place = places[k]
    if processOf(place) == process and not asking[callOf(place)] then
      gone[#gone + 1] = place
      l.total = l.total - costOf(place)
      if isDead and l.virtual > 0 then shares().refund(l, place, tonumber(places[k + 1])) end
    end
  end
  if #gone == 0 then return end
  l.card, l.first, l.sums = l.card - erase('ZREM', l.places, unpack(gone)), nil, nil
  tellLeft(l)
end

-- bury removes the first places of a dead process if it is at the head: no other call would ask in time.
local function bury(l)
  local process = l.card > 0 and l.paused <= now and processOf((head(l)))
  if process and dead(l, process) then clear(l, process, {}, true) end
end

-- wake notifies the processes of the first waiting calls, as many as there are free slots for. If the
-- first call does not ask, wake repeats the messages after each MOMENT, and then notifies the first call
-- of other processes, too. Dead processes lose their slots and places.
local function wake(l)
  if not l.meter.tells then return bury(l) end
  if l.card > 0 then l.meter.sweep(l) end
  local free, moment = l.a - l.used, l.meter.MOMENT
  if l.card == 0 or free <= 0 or l.till > now or l.paused > now then
    l.woken = 0
    return
  end
  sooner(l)
  local late = at - l.since
  local again = floor(late / moment) > max(0, floor((late - now + l.seen) / moment))
  if again then l.woken = 0 end
  local places, told, news = call('ZRANGE', l.places, 0, (again and WAKES or min(free, WAKES)) - 1, 'WITHSCORES'), {}, {}
  for k = 1, #places, 2 do
    free = free - costOf(places[k])
    if free < 0 and not again then break end
    local process, tag = processOf(places[k]), tonumber(places[k + 1])
    if not told[process] and dead(l, process) then
      clear(l, process, {}, true)
      return wake(l)
    end
    if free >= 0 or not told[process] then
      told[process] = (told[process] or 0) + 1
      if free < 0 then news[process] = true elseif tag > l.woken then l.woken, news[process] = tag, true end
    end
  end
  for process in pairs(news) do tell(l, 'room:' .. process .. ':' .. told[process]) end
end
