-- change.lua: what seldom happens to a state: Redis has lost data, its clock has stepped, or another limit is in
-- force. These functions are made when they are first needed.

local changes = once(function()

-- stepped is how far Redis's clock has stepped since the last use of a limit. It steps back, or it steps
-- ahead by more than the time that the caller measured since its last reply. If that reply is older than a
-- step back of the last minute, the caller's clock lacks that step. A caller that was the last to use the limit knows
-- how long it has rested before a step back. For others, it has not rested.
local function stepped(l)
  if l.seen > now then return now - (l.brought == l.version and max(l.seen, l.clock) or l.seen) end
  local back, version = match(l.steppedBack, '^(%d+) (%d+)')
  local lacks = back and l.brought > 0 and l.brought < tonumber(version) and back or 0
  local ahead = min(l.was[2] % 1 > 0 and huge or now - l.seen, now - l.clock + lacks)
  return l.clock > 0 and ahead > STEP and ahead or 0
end

-- usedBefore returns how many permits count in a state of another kind, and until when at most.
local function usedBefore(l, plain, meter, kept)
  local kind, used, till = match(plain, '(%a) %S+ %S+$'), 0, 0
  local one, two, three, four = match(meter, '^(%S+) (%S+) ?(%S*) ?(%S*)$')
  if kind == 'q' and four ~= '' then -- of this window and the next
    used, till = two + four, four == '0' and tonumber(three) or 2 * three - one
  elseif kind == 'r' and three ~= '' then
    local over, most = 0, l.entries -- entries that have left the window
    while over < most do
      local middle = floor((over + most) / 2)
      if match(call('ZRANGE', l.log, middle, middle)[1], '^%S+ (%S+)') + three + l.b <= at then over = middle + 1 else most = middle end
    end
    local first = call('ZRANGE', l.log, over, over, 'WITHSCORES')
    used, till = first[1] and one - first[2] + match(first[1], '^%d+ %S+ (%d+)') or 0, two + three + l.b
  elseif kind == 'p' or kind == 'w' then
    till = l.free + l.part - l.held
    used = max(0, ceil((till - at) / l.a + (kind == 'p' and l.b or 0)))
  end
  local more, ends = match(kept, '^(%d+) (%d+)$')
  if more and tonumber(ends) > now then used, till = used + more, max(till, tonumber(ends)) end
  return used, till
end

-- convert begins a limit of another kind, as its newest plan says. It grants its first turn a second from now, when
-- granted turns are over. Permits that were used before count in the window of now, and a bucket begins empty. Places
-- and bookings stay.
local function convert(l, plain, meter, kept)
  local used, till = usedBefore(l, plain, meter, kept)
  params(l, l.mine)
  local problem = l.meter.unpack(l, nil)
  if problem then return problem end
  erase('UNLINK', l.key, l.log) -- save writes the whole state
  for k = 1, #FIELDS do l.was[k] = k <= NUMBERS and 0 or '' end
  l.own, l.rank, l.entries, l.seen, l.part, l.held, l.setUntil, l.leased, l.last, l.brings, l.renews = l.mine, l.myRank, 0, now, 0, 0, 0, 0, '', '', true
  l.meter.fresh(l)
  if l.kind == 'q' or l.kind == 'r' then
    if used > 0 then l.meter.spend(l, min(used, l.a), at) end
  elseif used > 0 and till > now then
    l.kept, l.keptTill = format('%.0f %.0f', used, ceil(till)), till
  end
  l.meter.close(l, now + AHEAD)
  tell(l, 'limit:0:0')
  anew(l, now + AHEAD)
end

-- forgetPlaces empties the queue. Waiting calls enter it again when they next ask, in the same order by
-- their tags. Some calls had their turns or left while this server missed it. They never ask again, and
-- each of their places would hold up the queue.
local function forgetPlaces(l)
  if l.card == 0 then return end
  erase('UNLINK', l.places)
  l.card, l.total, l.head, l.since = 0, 0, '0', ceil(at)
end

-- recall takes over what the caller remembers if the state lacks it: the data was lost, or the state is
-- older, or it comes from another server.
local function recall(l, epoch)
  local run = ARGV[RUN]
  local other = run ~= '' and l.run ~= '' and l.run ~= run or l.fresh and moved -- other processes may have used what was lost
  local lost = epoch > 0 and (l.fresh or epoch == l.epoch and l.version < l.brought)
  if l.fresh then l.meter.fresh(l) end
  if epoch > 0 and (lost or epoch ~= l.epoch) or other then
    -- Keys that are gone so soon did not expire. So other processes may still hold granted turns.
    local reach, free = tonumber(match(l.brings, '^%S+') or ''), l.free
    local young = l.meter.refills and reach and reach > -l.meter.life(l) - 2 * RENEW
    l.meter.remember(l, l.brings, other or lost and young)
    -- A process that knew nothing of the loss has begun the state.
    if young and not lost and epoch < l.epoch then atLeast(l, min(l.epoch, now) + AHEAD) end
    free = max(free, now + AHEAD)
    if l.kind == 'p' and l.paused <= now and l.free > free then -- no turn is due so late: this is a pause, or a debt
      if epoch < l.epoch and l.resumed == l.epoch then -- that pause or debt has been ended since
        l.free, l.part = free, 0
      else
        l.paused, l.held, l.reason = l.free, l.free - now, 'Redis lost its data, and this is what a process remembers of it'
      end
    end
  end
  if (lost or other) and not l.fresh then
    l.epoch = max(l.epoch + 1, floor(now))
    if l.meter.forget then l.meter.forget(l) end
    forgetPlaces(l)
  end
  -- The keys of a limit that was in use may have expired as the clock stepped ahead.
  if l.fresh and l.meter.refills and l.clock > 0 and now - l.clock > STEP then l.meter.remember(l, '', true, now - l.clock) end
  if run ~= '' then l.run = run end
end

local MOMENTS = { 'paused', 'latest', 'returned', 'span', 'setUntil', 'closed', 'leased' } -- if they are not 0

-- step moves all moments by as much as Redis's clock has stepped. If a caller that took a step ahead for a rest was the
-- first to use a limit after it, the limit may have moments of both clocks. Then none moves, and the bucket begins empty
-- in a second.
local function step(l)
  local micros, back, till = stepped(l), match(l.steppedBack, '^(%d+) %d+ (%d+)$')
  if micros < 0 then
    l.steppedBack = format('%.0f %.0f %.0f', (back or 0) - micros, l.version + 1, now + 6 * RENEW)
  elseif back and now > tonumber(till) then
    l.steppedBack = ''
  end
  if micros == 0 then return end
  l.head, l.stepped = '0', true
  if micros > 0 and l.was[2] % 1 > 0 then return l.meter.remember(l, l.brings, true) end
  l.meter.move(l, micros)
  if l.kind == 'q' then tellLeft(l) end -- its windows stay: they may come sooner than the forecasts of waiting calls
  if l.virtual > 0 then erase('ZREM', l.flows, '!') end
  for _, name in ipairs(MOMENTS) do
    if l[name] > 0 then l[name] = max(0, l[name] + micros) end
  end
end

-- become puts another limit in force. Granted turns stay as they are, and the next turns begin behind
-- them. The message about a paced limit has two numbers: the factor by which its interval has changed,
-- and the micros that the permits take that its burst has lost.
local function become(l, text)
  if text == l.limit then return end
  local to, factor, less = {}, 1, 0
  if not params(to, text) then return end
  if l.kind == 'p' then factor, less = to.a / l.a, max(0, l.b - to.b) * to.a end
  tell(l, format('limit:%.17g:%.17g', factor, less))
  l.meter.change(l, to.a, to.b)
  anew(l, at)
  l.a, l.b, l.limit, l.renews = to.a, to.b, text, true
end

return { convert = convert, recall = recall, step = step, become = become }
end)
