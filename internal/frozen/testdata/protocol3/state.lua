-- state.lua: the hash of one limit. It is read and checked as a whole, and only changed fields are
-- written.

-- The fields of the hash. The first NUMBERS are numbers, which are 0 where Redis does not have them; the
-- others are texts. The field `queue` packs nine values. total: the permits that calls in the queue need.
-- seq: the highest tag. head: the first place, and the place whose process was notified last that it is
-- late. since: when the permits of the head were there. wanted: the permits of bookings that count.
-- front, span, returned: see bookings.lua. latest: when the last booked call is due back.
local FIELDS = { 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction', 'epoch', 'rank', 'setUntilMicros', 'pausedUntilMicros',
  'heldMicros', 'resumed', 'virtual', 'dense', 'plain', 'last', 'run', 'limit', 'own', 'reason', 'meter', 'queue', 'protocol' }
local NUMBERS = 12
local MOMENTS = { 'paused', 'latest', 'returned', 'span', 'setUntil' } -- if they are not 0
local limits, byKey = {}, {} -- by index; a limit that a call names twice has one table

-- say writes the part of the reply about a limit.
local function say(j, version, reach, text, problem)
  local k = 4 * j - 2
  reply[k], reply[k + 1], reply[k + 2], reply[k + 3] = version, reach, text, problem
end

-- fields reads the hash, and checks the types of the other keys.
local function fields(l)
  local f = pcall('HMGET', l.key, unpack(FIELDS))
  local places, booked, log = pcall('ZCARD', l.places), pcall('ZCARD', l.booked), pcall('ZCARD', l.log)
  local renews = floor(now / RENEW) ~= floor((tonumber(f[2]) or 0) / RENEW) -- every RENEW
  local processes = renews and pcall('ZCARD', l.processes) or 0
  for _, reply in ipairs({ f, places, booked, log, processes }) do
    if type(reply) == 'table' and reply.err then return 'BADSTATE key: ' .. reply.err end
  end
  local was = { tonumber(f[1] or 0), tonumber(f[2] or 0), tonumber(f[3] or 0), tonumber(f[4] or 0), tonumber(f[5] or 0), tonumber(f[6] or 0),
    tonumber(f[7] or 0), tonumber(f[8] or 0), tonumber(f[9] or 0), tonumber(f[10] or 0), tonumber(f[11] or 0), tonumber(f[12] or 0),
    f[13] or '', f[14] or '', f[15] or '', f[16] or '', f[17] or '', f[18] or '', f[19] or '', f[20] or '0 0 0 0 0 0 0 0 0', f[21] or '' }
  for k = 1, NUMBERS do
    local x = was[k]
    if not x or x - x ~= 0 then return 'BADSTATE ' .. FIELDS[k] .. ': want a number, got ' .. f[k] end
  end
  l.protocol = max(PROTOCOL, tonumber(was[21]) or 0)
  if l.protocol > PROTOCOL + 1 then return 'PROTOCOL ' .. was[21] end
  if not met and ARGV[RUN] ~= '' and f[15] ~= ARGV[RUN] then meet(ARGV[RUN]) end
  l.was, l.renews, l.fresh, l.card, l.bookings, l.entries = was, renews, not f[13], places, booked, log
  l.version, l.seen, l.free, l.part, l.epoch, l.rank = was[1], was[2], was[3], was[4], was[5], was[6]
  l.setUntil, l.paused, l.held, l.resumed, l.virtual, l.dense = was[7], was[8], was[9], was[10], was[11], was[12]
  l.plain, l.last, l.run, l.own, l.reason = was[13], was[14], f[15] or ARGV[RUN], was[17], was[18]
  if l.fresh then
    if call('EXISTS', l.key) == 1 then return 'BADSTATE plain: want a text, got nothing' end
    l.card, l.bookings, l.entries, l.seen, l.free, l.epoch, was[4] = 0, 0, 0, now, at, now, nil
  end
  if f[16] and f[16] ~= l.mine and not params(l, f[16]) then return 'BADSTATE limit: want two numbers, got ' .. f[16] end
  local total, seq, head, since, wanted, front, latest, span, returned = match(was[20], '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  l.total, l.seq, l.since, l.wanted, l.front = tonumber(total), tonumber(seq), tonumber(since), tonumber(wanted), tonumber(front)
  l.latest, l.span, l.returned, l.head, l.called = tonumber(latest), tonumber(span), tonumber(returned), match(head or '', '^([^:]*:?[^:]*):?(.*)$')
  if not (l.total and l.seq and l.since and l.wanted and l.front and l.latest and l.span and l.returned and
    finite(l.total + l.seq + l.since + l.wanted + l.front + l.latest + l.span + l.returned)) then
    return 'BADSTATE queue: want 9 values, got ' .. was[20]
  end
  return l.meter.unpack(l, f[19] or nil)
end

-- forgetPlaces empties the queue. Waiting calls enter it again when they next ask, in the same order by
-- their tags. Some calls had their turns or left while this server missed it. They never ask again, and
-- each of their places would hold up the queue. Limits of slots keep their places, as their calls wait
-- for messages.
local function forgetPlaces(l)
  if l.card == 0 or l.meter.tells then return end
  erase('UNLINK', l.places)
  l.card, l.total, l.head, l.since = 0, 0, '0', ceil(at)
end

-- recall takes over what the caller remembers if the state lacks it: the data was lost, or the state is
-- older, or it comes from another server.
local function recall(l)
  local epoch, run = tonumber(match(l.known, '^%d+') or 0), ARGV[RUN]
  local other = run ~= '' and l.run ~= '' and l.run ~= run or l.fresh and moved -- other processes may have used what was lost
  local lost = epoch > 0 and (l.fresh or epoch == l.epoch and l.version < l.brought)
  if l.fresh then l.meter.fresh(l) end
  if epoch > 0 and (lost or epoch ~= l.epoch) or other then
    -- Keys that are gone so soon did not expire. So other processes may still hold granted turns.
    local young, free = tonumber(match(l.brings, '^%S+') or ''), l.free
    l.meter.remember(l, l.brings, other or l.meter.refills and lost and young and young > -l.meter.life(l) - 2 * RENEW)
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
  if l.fresh and l.meter.refills and l.clock > 0 and now - l.clock > STEP then l.meter.remember(l, '', true) end
  if run ~= '' then l.run = run end
end

-- step moves all moments by as much as Redis's clock has stepped.
local function step(l)
  local micros = stepped(l.seen, l.clock)
  if micros == 0 then return end
  l.meter.move(l, micros)
  l.head = '0'
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

-- rule puts the limit in force that has the highest rank, or that was set for a time.
local function rule(l)
  if l.own == '' or l.myRank > l.rank then l.own, l.rank = l.mine, max(l.myRank, l.rank) end
  if l.setUntil > 0 and l.setUntil <= now then l.setUntil = 0 end
  if l.setUntil == 0 then become(l, l.own) end
end

-- endShares ends all debts of flows, if nobody waits.
local function endShares(l)
  if l.virtual == 0 or l.card > 0 or l.bookings > 0 then return end
  l.virtual, l.dense = 0, 0
  erase('UNLINK', l.flows)
end

-- giveBack undoes the last spending down to `keep` permits, if the ask made it. It returns how many
-- permits came back.
local function giveBack(l, who, keep)
  local process, serial, cost, due = match(l.last, '^(%S+) (%S+) (%S+) ?(%S*)$')
  if not process or process .. ' ' .. serial ~= who then return 0 end
  local size = tonumber(cost) - keep
  if size <= 0 or not l.meter.unspend(l, size, tonumber(due) or at) then return 0 end
  sooner(l)
  tellLeft(l)
  l.last = keep > 0 and format('%s %s %.0f %s', process, serial, keep, due) or ''
  return size
end

local function load(j)
  limits[j] = byKey[KEYS[KEYED * (j - 1) + 1]]
  if limits[j] then return limits[j] end
  local l, problem = arguments(j)
  limits[j], byKey[l.key] = l, l
  l.problem = problem or fields(l)
  if l.problem then return l end
  if l.fresh then erase('UNLINK', l.places, l.log, l.booked, l.flows) end -- these keys are older than the state
  step(l)
  recall(l)
  rule(l)
  if l.paused <= now then l.paused, l.held, l.reason = 0, 0, '' end
  if l.bookings > 0 and l.latest < now then -- all bookings are late; the limit is in use, so its keys do not expire
    erase('UNLINK', l.booked)
    l.bookings = 0
  end
  if l.card == 0 then l.total = 0 end
  if l.bookings == 0 then l.wanted, l.span = 0, 0 end
  endShares(l)
  l.far = floor(max(l.latest, l.paused, l.setUntil) / RENEW)
  if l.back ~= '' then giveBack(l, l.back, 0) end
  return l
end

-- limit loads the limit that an item names, or returns nil.
local function limit(i)
  local j = tonumber(ARGV[i])
  return j and j >= 1 and KEYS[KEYED * j] and (limits[j] or load(j)) or nil
end

-- save writes the fields that changed. They are texts, as Redis takes texts the fastest.
local function save(l)
  l.version, l.seen = l.version + 1, now
  endShares(l)
  local calm = not (l.card > 0 or l.bookings > 0 or l.paused > 0 or l.setUntil > 0 or l.kind ~= 'p' or l.low)
  l.plain = (calm and '' or '~') .. format('%.0f ', l.epoch) .. (l.run == '' and '-' or l.run) .. ' ' .. l.kind .. ' ' .. l.limit
  local head = l.head ~= '0' and l.called ~= '' and l.head .. ':' .. l.called or l.head
  local queue = format('%d %d %s %.0f %d %d %.0f %.0f %d', l.total, l.seq, head, l.since, l.wanted, l.front, l.latest, l.span, l.returned)
  local is = { l.version, now, l.free, l.part, l.epoch, l.rank, l.setUntil, l.paused, l.held, l.resumed, l.virtual, l.dense,
    l.plain, l.last, l.run, l.limit, l.own, l.reason, l.meter.pack(l) or '', queue, format('%d', l.protocol) }
  local was, changes, n = l.was, {}, 0
  for k = 1, #FIELDS do
    local value = is[k]
    if value ~= was[k] then changes[n + 1], changes[n + 2], n = FIELDS[k], k <= NUMBERS and format('%.17g', value) or value, n + 2 end
  end
  call('HSET', l.key, unpack(changes))
  local far = max(l.latest, l.paused, l.setUntil)
  local all = l.renews or floor(far / RENEW) ~= l.far
  if all or l.charged or l.logged then
    local life = format('%.0f', ceil((max(l.meter.life(l), far - now) + horizon + 3 * RENEW) / 1000))
    for _, key in ipairs(all and { l.key, l.places, l.booked } or {}) do call('PEXPIRE', key, life) end
    if all or l.charged and l.virtual > 0 then call('PEXPIRE', l.flows, life) end
    if all or l.logged then call('PEXPIRE', l.log, life) end
  end
  if l.news and ARGV[CHANNEL] ~= '' then
    pcall('PUBLISH', ARGV[CHANNEL], format('news %s %.0f %s', table.concat(l.news, ','), now, l.key))
  end
end

-- textOf is the text of a limit in a reply. If the caller has plans and brought another one than the newest,
-- that one follows.
local function textOf(l)
  if l.plans and l.own ~= l.mine then return format('%s@%.0f %s', l.plain, l.rank, l.own) end
  return l.plain == l.known and '' or l.plain
end

-- finish writes all limits that have no problem, and returns the reply.
local function finish(wake)
  for j, l in pairs(limits) do
    if not l.problem and l.j == j then
      if wake then wake(l) end
      save(l)
    end
  end
  for j, l in pairs(limits) do
    if l.problem then say(j, 0, '', '', l.problem) else say(j, l.version, l.meter.reach(l), textOf(l), '') end
  end
  return flat(reply, answers)
end
