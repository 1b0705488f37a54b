-- state.lua: one limit: its hash, read and checked as a whole, and written where it changed.

local FIELDS = { 'plain', 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction', 'last', 'epoch', 'run',
  'limit', 'own', 'rank', 'setUntilMicros', 'pausedUntilMicros', 'heldMicros', 'reason', 'resumed', 'queue', 'meter', 'shares' }
local FRESH = { version = '0', last = '', rank = '0', own = '', setUntilMicros = '0',
  pausedUntilMicros = '0', heldMicros = '0', reason = '', resumed = '0', queue = '0 0 0 0 0 0 0 0 0' }
local limits = {}

-- arguments reads what the caller says of a limit.
local function arguments(l, i)
  l.kind, l.meter = ARGV[i + 1], METERS[ARGV[i + 1]]
  if type(l.meter) == 'function' then
    l.meter = l.meter()
    METERS[l.kind] = l.meter
  end
  local a, b, rank = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  if not l.meter then return 'BADARG kind: want p, q, r, s or w, got ' .. l.kind end
  if not (finite(a) and a > 0 and a <= 1e15) then return 'BADARG a: want a number above 0, at most 1e15, got ' .. ARGV[i + 2] end
  if not (finite(b) and b >= (l.kind == 'q' and 0 or 1) and b <= 1e15) then
    return 'BADARG b: want a number of at least 1, at most 1e15, got ' .. ARGV[i + 3]
  end
  l.version, l.clock = tonumber(ARGV[i + 6]), tonumber(ARGV[i + 10])
  if not (finite(rank) and finite(l.version) and finite(l.clock)) then
    return 'BADARG rank, version, clock: want numbers, got ' .. ARGV[i + 4] .. ', ' .. ARGV[i + 6] .. ', ' .. ARGV[i + 10]
  end
  l.rank, l.theirs = rank, ARGV[i + 2] .. ' ' .. ARGV[i + 3]
  l.known, l.reach, l.back, l.edges = ARGV[i + 5], ARGV[i + 7], ARGV[i + 8], ARGV[i + 9]
end

-- params reads "a b".
local function params(l, text)
  local a, b = match(text, '^(%S+) (%S+)$')
  l.a, l.b, l.limit = tonumber(a), tonumber(b), text
  return finite(l.a) and finite(l.b) and l.a > 0
end

-- fields reads the hash, and checks the types of the other keys.
local function fields(l)
  local f = pcall('HMGET', l.key, unpack(FIELDS))
  l.card, l.bookings = pcall('ZCARD', l.places), pcall('ZCARD', l.booked)
  local others = { f, l.card, l.bookings, pcall('ZCARD', l.log) }
  l.renews = floor(now / RENEW) ~= floor((tonumber(f[3]) or 0) / RENEW) -- from time to time
  if l.renews then others[5] = pcall('ZCARD', l.processes) end
  for _, other in ipairs(others) do
    if type(other) == 'table' and other.err then return 'BADSTATE key: ' .. other.err end
  end
  l.was, l.loaded, l.fresh = {}, {}, not f[1]
  if l.fresh and call('EXISTS', l.key) == 1 then return 'BADSTATE plain: want a text, got nothing' end
  for k, name in ipairs(FIELDS) do l.was[name] = f[k] or nil end
  local function number(name, fallback)
    local text = l.was[name] or FRESH[name] or fallback
    local x = tonumber(text)
    if not finite(x) then l.wrong = l.wrong or 'BADSTATE ' .. name .. ': want a number, got ' .. text end
    if l.was[name] or FRESH[name] then l.loaded[name] = x end
    return x
  end
  local brought, rank = l.version, l.rank
  l.version, l.seen, l.free, l.part = number('version'), number('seenMicros', now), number('nextFreeTicketMicros', at), number('fraction', 0)
  l.epoch, l.rank, l.setUntil = number('epoch', now), number('rank'), number('setUntilMicros')
  l.paused, l.held, l.resumed = number('pausedUntilMicros'), number('heldMicros'), number('resumed')
  l.last, l.run, l.own, l.reason = l.was.last or '', l.was.run or ARGV[6], l.was.own or '', l.was.reason or ''
  if l.wrong then return l.wrong end
  if not params(l, l.was.limit or l.theirs) then return 'BADSTATE limit: want two numbers, got ' .. l.was.limit end
  local q = { match(l.was.queue or FRESH.queue, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$') }
  l.total, l.seq, l.head, l.since = tonumber(q[1]), tonumber(q[2]), q[3], tonumber(q[4])
  l.wanted, l.front, l.latest = tonumber(q[5]), tonumber(q[6]), tonumber(q[7])
  l.span, l.returned = tonumber(q[8]), tonumber(q[9])
  local wellformed = finite(l.total) and finite(l.seq) and finite(l.since) and finite(l.wanted) and finite(l.front)
  if not (wellformed and finite(l.latest) and finite(l.span) and finite(l.returned)) then
    return 'BADSTATE queue: want nine numbers, got ' .. l.was.queue
  end
  l.virtual, l.from, l.given, l.speed, l.dense = 0, 0, 0, 0, 0 -- see shares.lua
  if l.was.shares then
    local s = { match(l.was.shares, '^(%S+) (%S+) (%S+) (%S+) (%S+)$') }
    l.virtual, l.from, l.given, l.speed, l.dense = tonumber(s[1]), tonumber(s[2]), tonumber(s[3]), tonumber(s[4]), tonumber(s[5])
    if not (finite(l.virtual) and finite(l.from) and finite(l.given) and finite(l.speed) and finite(l.dense)) then
      return 'BADSTATE shares: want five numbers, got ' .. l.was.shares
    end
  end
  local wrong = l.meter.unpack and l.meter.unpack(l, l.was.meter)
  return wrong, brought, rank
end

-- recall brings what the caller remembers, where the state lacks it: the data was lost, or
-- is that of an older moment, or comes from another server.
local function recall(l, brought)
  local epoch, run = tonumber(match(l.known, '^%d+') or 0), ARGV[6]
  local other = run ~= '' and l.run ~= '' and l.run ~= run
  local lost = epoch > 0 and (l.fresh or epoch == l.epoch and l.version < brought)
  if l.fresh then l.meter.fresh(l) end
  if epoch > 0 and (lost or epoch ~= l.epoch) or other then
    -- Keys that are gone so soon did not expire: turns that others were given may be out.
    local young, free = tonumber(match(l.reach, '^%S+') or ''), l.free
    l.meter.remember(l, l.reach, other or (l.kind == 'p' or l.kind == 'w') and lost and young and young > -l.meter.life(l) - 2 * RENEW)
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
  end
  if run ~= '' then l.run = run end
end

local function step(l)
  local micros = stepped(l.seen, l.clock)
  if micros == 0 then return end
  l.meter.move(l, micros)
  l.head = '0'
  if l.paused > 0 then l.paused = l.paused + micros end
  if l.latest > 0 then l.latest = l.latest + micros end
  if l.returned > 0 then l.returned = l.returned + micros end
  if l.span > 0 then l.span = max(0, l.span + micros) end
  if l.setUntil > 0 then l.setUntil = l.setUntil + micros end
end

local function become(l, text)
  local to = {}
  if text == l.limit or not params(to, text) then return end
  l.meter.change(l, to.a, to.b)
  l.head = '0'
  l.a, l.b, l.limit, l.renews = to.a, to.b, text, true
end

-- rule lets the limit be in force that has the highest rank, or that was set for a time.
local function rule(l, rank)
  if l.own == '' or rank > l.rank then l.own, l.rank = l.theirs, max(rank, l.rank) end
  if l.setUntil > 0 and l.setUntil <= now then l.setUntil = 0 end
  if l.setUntil == 0 then become(l, l.own) end
end

local sooner, endShares -- see places.lua, shares.lua

-- giveBack takes the last spending back but for `keep` permits, if it is that of the ask.
local function giveBack(l, who, keep)
  local process, serial, cost, due = match(l.last, '^(%S+) (%S+) (%S+) ?(%S*)$')
  if not process or process .. ' ' .. serial ~= who or l.kind == 's' then return 0 end
  local size = tonumber(cost) - keep
  if size <= 0 then return 0 end
  l.meter.unspend(l, size, tonumber(due) or at)
  sooner(l)
  l.last = keep > 0 and format('%s %s %.0f %s', process, serial, keep, due) or ''
  return size
end

local byKey = {} -- a limit that a call names twice is one

local function load(j)
  local k = KEYED * (j - 1)
  limits[j] = byKey[KEYS[k + 1]]
  if limits[j] then return limits[j] end
  local l = { j = j, key = KEYS[k + 1], places = KEYS[k + 2], log = KEYS[k + 3], processes = KEYS[k + 4], booked = KEYS[k + 5],
    flows = KEYS[k + 6] }
  limits[j], byKey[l.key] = l, l
  l.problem = arguments(l, HEAD + WIDTH * (j - 1))
  if l.problem then return l end
  local brought, rank
  l.problem, brought, rank = fields(l)
  if l.problem then return l end
  if l.fresh then call('UNLINK', l.places, l.log, l.booked, l.flows) end -- what stands there is older
  step(l)
  recall(l, brought)
  rule(l, rank)
  if l.paused <= now then l.paused, l.held, l.reason = 0, 0, '' end
  if l.fresh then l.card, l.bookings = 0, 0 end
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

-- limit loads the limit that an item names; nil: there is none, or something is wrong.
local function limit(i)
  local j = tonumber(ARGV[i])
  if not j or not KEYS[KEYED * j] or j < 1 then return end
  local l = limits[j] or load(j)
  return not l.problem and l or nil
end

-- tell notes what happened to a limit: save publishes it.
local function tell(l, what)
  l.news = l.news or {}
  l.news[#l.news + 1] = what
end

-- changes lists the fields that changed, with their texts: what is handed to Redis as a
-- text costs it the least.
local function changes(l, plain)
  local w, old = {}, l.loaded
  local function number(name, x, as)
    if x ~= old[name] then w[#w + 1], w[#w + 2] = name, format(as, x) end
  end
  local function text(name, x)
    if x ~= (l.was[name] or FRESH[name]) then w[#w + 1], w[#w + 2] = name, x end
  end
  w[1], w[2] = 'plain', plain
  if plain == l.was.plain then w = {} end
  number('version', l.version, '%.0f')
  number('seenMicros', now, '%.0f')
  number('nextFreeTicketMicros', l.free, '%.0f')
  number('fraction', l.part, '%.17g')
  text('last', l.last)
  number('epoch', l.epoch, '%.0f')
  text('run', l.run)
  text('limit', l.limit)
  text('own', l.own)
  number('rank', l.rank, '%.0f')
  number('setUntilMicros', l.setUntil, '%.0f')
  number('pausedUntilMicros', l.paused, '%.0f')
  number('heldMicros', l.held, '%.17g')
  text('reason', l.reason)
  number('resumed', l.resumed, '%.0f')
  text('queue', format('%.0f %.0f %s %.0f %.0f %.0f %.0f %.0f %.0f', l.total, l.seq, l.head, l.since, l.wanted,
    l.front, l.latest, l.span, l.returned))
  if l.virtual > 0 or l.was.shares then text('shares', format('%.0f %.0f %.0f %.17g %.0f', l.virtual, l.from, l.given, l.speed, l.dense)) end
  if l.meter.pack then text('meter', l.meter.pack(l)) end
  return w
end

local function save(l)
  l.version = l.version + 1
  if l.meter.wake then l.meter.wake(l) end
  endShares(l)
  local calm = not (l.card > 0 or l.bookings > 0 or l.paused > 0 or l.setUntil > 0 or l.kind ~= 'p' or l.low)
  local plain = (calm and '' or '~') .. format('%.0f ', l.epoch) .. (l.run == '' and '-' or l.run) .. ' ' .. l.kind .. ' ' .. l.limit
  call('HSET', l.key, unpack(changes(l, plain)))
  local far = max(l.latest, l.paused, l.setUntil)
  local life = max(l.meter.life(l), far - now) + horizon + 3 * RENEW
  life = format('%.0f', ceil(life / 1000))
  if l.renews or floor(far / RENEW) ~= l.far then
    call('PEXPIRE', l.key, life)
    if l.card > 0 then call('PEXPIRE', l.places, life) end
    if l.bookings > 0 then call('PEXPIRE', l.booked, life) end
    if l.virtual > 0 then call('PEXPIRE', l.flows, life) end
    if l.kind ~= 'r' then call('PEXPIRE', l.log, life) end
  end
  if l.charged and l.virtual > 0 then call('PEXPIRE', l.flows, life) end
  if l.logged or l.kind == 'r' then call('PEXPIRE', l.log, life) end
  if l.news and ARGV[9] ~= '' then
    pcall('PUBLISH', ARGV[9], format('news %s %.0f %s', table.concat(l.news, ','), now, l.key))
  end
  replies[l.j] = { l.version, l.meter.reach(l), plain == l.known and '' or plain, '' }
end

-- finish writes all limits, but those with problems.
local function finish()
  for j, l in pairs(limits) do
    if l.problem then replies[j] = { 0, '', '', l.problem } elseif l.j == j then save(l) end
  end
  for j, l in pairs(limits) do replies[j] = replies[l.j] end
end
