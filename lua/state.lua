-- state.lua: one limit: its hash, read and checked as a whole, and written where it changed.

-- The field that packs several values. total: permits that calls in the queue want. seq: the highest tag.
-- head: the head of the queue, and the one that was told last that it is late. since: when the
-- permits of the head were there. wanted: permits of bookings that count. latest: when the last
-- booking is to be back. front, span, returned: see bookings.lua.
local QUEUE = { '%.0f %.0f %s %.0f %.0f %.0f %.0f %.0f %.0f', 'total', 'seq', 'head', 'since', 'wanted', 'front', 'latest', 'span', 'returned' }

-- The fields of the hash: the name in Redis, the name in the table of a limit or what it packs, the format
-- of a number, and what it is as long as Redis does not have it; false: the function fields says so.
local FIELDS = {
  'plain', 'plain', false, false,
  'seenMicros', 'seen', '%.0f', false,
  'version', 'version', '%.0f', '0',
  'nextFreeTicketMicros', 'free', '%.0f', false,
  'fraction', 'part', '%.17g', false,
  'last', 'last', false, '',
  'epoch', 'epoch', '%.0f', false,
  'run', 'run', false, false,
  'limit', 'limit', false, false,
  'own', 'own', false, '',
  'rank', 'rank', '%.0f', '0',
  'setUntilMicros', 'setUntil', '%.0f', '0',
  'pausedUntilMicros', 'paused', '%.0f', '0',
  'heldMicros', 'held', '%.17g', '0',
  'reason', 'reason', false, '',
  'resumed', 'resumed', '%.0f', '0',
  'queue', QUEUE, false, '0 0 0 0 0 0 0 0 0',
  'virtual', 'virtual', '%.0f', '0',
  'dense', 'dense', '%.0f', '0',
  'meter', 'packed', false, false,
}
local MOMENTS = { 'paused', 'latest', 'returned', 'span', 'setUntil' } -- if they are not 0
local limits, byKey = {}, {} -- by index; a limit that a call names twice is one

-- arguments reads what the caller says of a limit.
local function arguments(l, i)
  l.kind, l.meter = ARGV[i + KIND], meterOf(ARGV[i + KIND])
  local a, b = tonumber(ARGV[i + A]), tonumber(ARGV[i + B])
  if not l.meter then return 'BADARG kind: want p, q, r, s or w, got ' .. l.kind end
  if not (finite(a) and a > 0 and a <= LONGEST) then return 'BADARG a: want a number above 0, at most 1e15, got ' .. ARGV[i + A] end
  if not (finite(b) and b >= (l.kind == 'q' and 0 or 1) and b <= LONGEST) then
    return 'BADARG b: want a number of at least 1, at most 1e15, got ' .. ARGV[i + B]
  end
  l.myRank, l.brought, l.clock = tonumber(ARGV[i + RANK]), tonumber(ARGV[i + VERSION]), tonumber(ARGV[i + CLOCK])
  if not (finite(l.myRank) and finite(l.brought) and finite(l.clock)) then
    return 'BADARG rank, version, clock: want numbers, got ' .. ARGV[i + RANK] .. ', ' .. ARGV[i + VERSION] .. ', ' .. ARGV[i + CLOCK]
  end
  l.mine = ARGV[i + A] .. ' ' .. ARGV[i + B]
  l.known, l.brings, l.back, l.edges = ARGV[i + KNOWN], ARGV[i + REACH], ARGV[i + BACK], ARGV[i + EDGES]
end

-- params reads "a b".
local function params(l, text)
  local a, b = match(text, '^(%S+) (%S+)$')
  l.a, l.b, l.limit = tonumber(a), tonumber(b), text
  return finite(l.a) and finite(l.b) and l.a > 0
end

-- fields reads the hash, and checks the types of the other keys.
local function fields(l)
  local names = {}
  for k = 1, #FIELDS, 4 do names[(k + 3) / 4] = FIELDS[k] end
  local f = pcall('HMGET', l.key, unpack(names))
  l.renews = floor(now / RENEW) ~= floor((tonumber(f[2]) or 0) / RENEW) -- from time to time
  local others = { f, pcall('ZCARD', l.places), pcall('ZCARD', l.booked), pcall('ZCARD', l.log), l.renews and pcall('ZCARD', l.processes) or nil }
  for _, other in ipairs(others) do
    if type(other) == 'table' and other.err then return 'BADSTATE key: ' .. other.err end
  end
  l.fresh, l.was = not f[1], {}
  if l.fresh and call('EXISTS', l.key) == 1 then return 'BADSTATE plain: want a text, got nothing' end
  l.card, l.bookings, l.entries = l.fresh and 0 or others[2], l.fresh and 0 or others[3], l.fresh and 0 or others[4]
  local was = l.was
  for n, name in ipairs(names) do
    local k = 4 * n - 2
    local to, text = FIELDS[k], f[n] or FIELDS[k + 2] or nil
    local value = text
    if type(to) == 'table' then
      local wrong = unpackInto(l, name, to, text)
      if wrong then return wrong end
    else
      if text and FIELDS[k + 1] then
        value = tonumber(text)
        if not finite(value) then return 'BADSTATE ' .. name .. ': want a number, got ' .. text end
      end
      l[to] = value
    end
    was[n] = value
  end
  l.seen, l.free, l.part, l.epoch = l.seen or now, l.free or at, l.part or 0, l.epoch or now
  l.run = l.run or ARGV[RUN]
  if not params(l, l.limit or l.mine) then return 'BADSTATE limit: want two numbers, got ' .. l.limit end
  l.head, l.called = match(l.head, '^([^:]*:?[^:]*):?(.*)$')
  return l.meter.unpack(l, l.packed)
end

-- forgetPlaces empties the queue. Waiting calls enter it again when they ask next, in the same order by
-- their tags. Calls that had their turns, or left, while this server missed it never ask again, and each
-- of their places would hold up the queue. Limits of slots keep their places, as calls wait for messages.
local function forgetPlaces(l)
  if l.card == 0 or l.meter.tells then return end
  call('UNLINK', l.places)
  l.card, l.total, l.head, l.since = 0, 0, '0', ceil(at)
end

-- recall takes over what the caller remembers, if the state lacks it: the data was lost, or the state is
-- older than that, or comes from another server.
local function recall(l)
  local epoch, run = tonumber(match(l.known, '^%d+') or 0), ARGV[RUN]
  local other = run ~= '' and l.run ~= '' and l.run ~= run
  local lost = epoch > 0 and (l.fresh or epoch == l.epoch and l.version < l.brought)
  if l.fresh then l.meter.fresh(l) end
  if epoch > 0 and (lost or epoch ~= l.epoch) or other then
    -- Keys that are gone so soon did not expire: turns that others were given may be out.
    local young, free = tonumber(match(l.brings, '^%S+') or ''), l.free
    l.meter.remember(l, l.brings, other or l.meter.refills and lost and young and young > -l.meter.life(l) - 2 * RENEW)
    free = max(free, now + AHEAD)
    if l.kind == 'p' and l.paused <= now and l.free > free then -- no turn reaches so far: a pause, or a debt
      if epoch < l.epoch and l.resumed == l.epoch then -- somebody has ended that since
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
-- them. The message of a paced limit has the factor by which its interval has changed, and the micros
-- in which the permits would come that its burst has lost.
local function become(l, text)
  local to = {}
  if text == l.limit or not params(to, text) then return end
  local factor, less = 1, 0
  if l.kind == 'p' then factor, less = to.a / l.a, max(0, l.b - to.b) * to.a end
  tell(l, format('limit:%.17g:%.17g', factor, less))
  l.meter.change(l, to.a, to.b)
  anew(l, at)
  l.a, l.b, l.limit, l.renews = to.a, to.b, text, true
end

-- rule lets the limit be in force that has the highest rank, or that was set for a time.
local function rule(l)
  if l.own == '' or l.myRank > l.rank then l.own, l.rank = l.mine, max(l.myRank, l.rank) end
  if l.setUntil > 0 and l.setUntil <= now then l.setUntil = 0 end
  if l.setUntil == 0 then become(l, l.own) end
end

-- endShares ends all debts of flows, if nobody waits.
local function endShares(l)
  if l.virtual == 0 or l.card > 0 or l.bookings > 0 then return end
  l.virtual, l.dense = 0, 0
  call('UNLINK', l.flows)
end

-- giveBack undoes the last spending down to `keep` permits, if the ask made it. It returns how many permits
-- came back.
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
  local k = KEYED * (j - 1)
  limits[j] = byKey[KEYS[k + STATE]]
  if limits[j] then return limits[j] end
  local l = { j = j, key = KEYS[k + STATE], places = KEYS[k + PLACES], log = KEYS[k + LOG], processes = KEYS[k + PROCESSES],
    booked = KEYS[k + BOOKED], flows = KEYS[k + FLOWS] }
  limits[j], byKey[l.key] = l, l
  l.problem = arguments(l, HEAD + WIDTH * (j - 1)) or fields(l)
  if l.problem then return l end
  if l.fresh then call('UNLINK', l.places, l.log, l.booked, l.flows) end -- what stands there is older
  step(l)
  recall(l)
  rule(l)
  if l.paused <= now then l.paused, l.held, l.reason = 0, 0, '' end
  if l.bookings > 0 and l.latest < now then -- all of them are late: the limit is in use, so its keys live on
    call('UNLINK', l.booked)
    l.bookings = 0
  end
  if l.card == 0 then l.total = 0 end
  if l.bookings == 0 then l.wanted, l.span = 0, 0 end
  endShares(l)
  l.far = floor(max(l.latest, l.paused, l.setUntil) / RENEW)
  if l.back ~= '' then giveBack(l, l.back, 0) end
  return l
end

-- limit loads the limit that an item names; nil: there is none.
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
  l.head = l.head ~= '0' and l.called ~= '' and l.head .. ':' .. l.called or l.head
  l.packed = l.meter.pack(l)
  local changes, was = {}, l.was
  for k = 1, #FIELDS, 4 do
    local from, as = FIELDS[k + 1], FIELDS[k + 2]
    local value = type(from) == 'table' and packOf(l, from) or l[from]
    if value ~= was[(k + 3) / 4] then changes[#changes + 1], changes[#changes + 2] = FIELDS[k], as and format(as, value) or value end
  end
  call('HSET', l.key, unpack(changes))
  local far = max(l.latest, l.paused, l.setUntil)
  local life = format('%.0f', ceil((max(l.meter.life(l), far - now) + horizon + 3 * RENEW) / 1000))
  if l.renews or floor(far / RENEW) ~= l.far then
    for _, key in ipairs({ l.key, l.places, l.booked, l.flows, l.log }) do call('PEXPIRE', key, life) end
  else
    if l.charged and l.virtual > 0 then call('PEXPIRE', l.flows, life) end
    if l.logged then call('PEXPIRE', l.log, life) end
  end
  if l.news and ARGV[CHANNEL] ~= '' then
    pcall('PUBLISH', ARGV[CHANNEL], format('news %s %.0f %s', table.concat(l.news, ','), now, l.key))
  end
  replies[l.j] = { l.version, l.meter.reach(l), l.plain == l.known and '' or l.plain, '' }
end

-- finish writes all limits, but those with problems, and returns the reply.
local function finish(wake)
  for j, l in pairs(limits) do
    if l.problem then replies[j] = { 0, '', '', l.problem } elseif l.j == j then
      if wake then wake(l) end
      save(l)
    end
  end
  for j, l in pairs(limits) do replies[j] = replies[l.j] end
  return flat()
end
