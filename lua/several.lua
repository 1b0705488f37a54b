-- several.lua: several limits in one call, each of its own kind. Stands between line.lua and
-- the verbs turn, leave and settle; it only defines locals and calls nothing.
--
-- A kind answers four questions of a limit, once it was read and loaded: from when on a
-- call could be let through (earliest), until when it still could (latest), and what
-- becomes of it when it is let through (commit) or is not any more (release). Paced
-- limits are lines, see line.lua; the others count calls that were let through, and know
-- of calls that wait no more than when they are expected.

local NAP_MICROS = 5000000 -- who waits and does not come for so long is not awake

-- Redis writes what it reads of a double with 17 digits only if told so.
local function precise(x) return string.format('%.17g', x) end

local limits = {} -- of this call, in order
local id          -- of the call

-- A line at a time is in the locals of line.lua.
local current

local function put()
  return { STATE, WAITING, FREE, CLAIMED, base, interval, burst, ours, s, fresh, moved, turned, caller, own,
    witness, trace, epochRead, plainRead, quiet, skipped, top, absent, used, guarded, replay }
end

local function get(line)
  STATE, WAITING, FREE, CLAIMED, base, interval, burst, ours, s, fresh, moved, turned, caller, own,
    witness, trace, epochRead, plainRead, quiet, skipped, top, absent, used, guarded, replay = unpack(line, 1, 25)
end

local function blank(l)
  return { l.keys[1], l.keys[2], l.keys[3], l.keys[4], l.base, nil, nil, nil, {}, false, false, false,
    { reach = -LONGEST_MICROS, later = 0, epoch = 0, seen = 0, clock = 0, member = '', serial = 0 }, nil,
    nil, '', 0, nil, 0, nil, nil, {}, {}, false, false }
end

local function on(l)
  if current == l then return end
  if current then current.line = put() end
  current = l
  get(l.line or blank(l))
end

-- off brings back what the arguments of the call itself begin with.
local function off()
  if current then current.line = put() end
  current, base = nil, 0
end

-- ---------------------------------------------------------------------------
-- paced: a line. A ticket is final for a turn that may be later than it is due, as long as
-- its permits still fit in the bucket then.
local paced = {}

function paced.read(l)
  on(l)
  introduce()
  if burst and (l.cost > burst) then bad('BADARG', 'cost', 'at most the burst of ' .. digits(burst), digits(l.cost)) end
end

function paced.load(l)
  on(l)
  load()
  if problem then return end
  uses(WAITING, FREE, CLAIMED)
  l.name = entry(l.cost, id)
end

function paced.begin(l)
  on(l)
  begin()
  guard()
  l.size = l.cost -- and one more of a ticket that is wide: see free
  l.wide = burst <= l.cost and entry(l.cost + 1, id) or l.name
  if fresh then return end
  l.own = score(WAITING, l.name)
  if l.own and dead(l.own, l.cost) then
    redis.call('ZREM', WAITING, l.name)
    l.own = nil
  end
  l.had = not l.own and score(CLAIMED, l.name) or nil
  if not l.own and not l.had and l.wide ~= l.name then
    l.had = score(CLAIMED, l.wide)
    if l.had then l.size = l.cost + 1 end
  end
  l.kept = l.had and fits(l.had, l.size) and l.had or nil
  if l.own and l.own > s.final and not fits(l.own, l.cost) then wind(l.own, l.cost) end
end

-- resume finds the turn of a call that asks once more, a moment late, as `again` does.
function paced.resume(l, bound)
  on(l)
  if l.had and not l.kept and not fresh then l.kept = again(entry(l.size, id), bound) end
end

-- forget takes a ticket out of the claimed list, whatever it owns.
local function forget(l) redis.call('ZREM', CLAIMED, l.name, l.wide) end

function paced.exceeds(l)
  on(l)
  return l.cost > burst
end

-- until_when a ticket fits. Moments are doubles that hold quarters of a microsecond.
local function until_when(e, cost) return due(e - cost) + math.max(burst, cost) * interval + 1 end

-- lowest is the first number of a cost that still fits at a moment.
local function lowest(cost, at)
  local start = math.ceil((at - 1 - math.max(burst, cost) * interval - s.anchorMicros) / interval)
  return cost + math.max(s.floor, s.anchor + start)
end

-- How hard earliest tries to be of one mind with the other limits: ALONE, each line takes
-- what it likes best; to MEET them it gives up a part of an interval; and at LAST it takes
-- nothing before its tail that is not due yet. From that on it agrees to every moment.
local ALONE, MEET, LAST = 1, 2, 3

-- free chooses a number out of a free block, if there is one from `from` on that is lower
-- than the best so far. One whose permits are gone a moment after it is due may be used
-- later, to meet other limits, if it owns the permit after it too: the bucket of a strict
-- provider overflows meanwhile by less than that. It goes by the number of that permit.
local function free(l, from, best, at, way)
  if s.free == 0 then return best end
  local between = way == MEET and burst <= l.cost and due(from) > at
  local head = redis.call('ZRANGEBYSCORE', FREE, digits(from), '+inf', 'WITHSCORES', 'LIMIT', 0, SCAN)
  for i = 1, #head, 2 do
    local last, size = tonumber(head[i + 1]), costof(head[i])
    local e = size and math.max(from, last - size + l.cost)
    if e and e <= last and last - size >= s.floor and e < best.e and (way < LAST or due(e) <= at) then
      local cost = between and e == from and e - l.cost > last - size and l.cost + 1 or l.cost
      return { e = e, how = 'free', member = head[i], last = last, size = size, cost = cost }
    end
  end
  return best
end

-- find chooses the number for a turn at a moment, or the next one after that: its own, the
-- first of its cost that somebody waits under, one out of a free block, or a new one. The
-- permits between the tail and a new one become a free block. A number that is fixed gives
-- way to a free one if it is due later than the moment: another limit may let the call
-- through earlier than when it was chosen.
local function find(l, at, way)
  local from = lowest(l.cost, at)
  if l.kept and until_when(l.kept, l.size) >= at then
    local kept = { e = l.kept, how = 'kept', cost = l.size }
    return due(l.kept - l.size + l.cost) > at and free(l, from, kept, at, way) or kept
  end
  if l.own and (l.own >= from or l.own > s.final) then
    return { e = l.own, how = 'own', late = l.own < from }
  end
  local best = { e = math.max(s.tail + l.cost, from), how = 'new' }
  local head = redis.call('ZRANGEBYSCORE', WAITING, digits(from), digits(best.e), 'WITHSCORES', 'LIMIT', 0, SCAN)
  for i = 1, #head, 2 do
    local e = tonumber(head[i + 1])
    if e < best.e and costof(head[i]) == l.cost and not dead(e, l.cost) and (way < LAST or due(e) <= at) then
      best = { e = e, how = 'early', member = head[i] }
      break
    end
  end
  return free(l, from, best, at, way)
end

-- earliest lets a new ticket whose permits are gone a moment after it is due, as the burst
-- is no larger than its cost, be used at the moment: the line moves to it, by less than an
-- interval. Where others wait it does so only to meet limits that can not agree.
function paced.earliest(l, at, way)
  on(l)
  local c = find(l, at, way)
  if c.how == 'new' and burst <= l.cost and due(c.e) > at and c.e - 1 >= s.tail + l.cost and
    (way > ALONE or redis.call('EXISTS', WAITING) == 0) then
    c.e, c.late = c.e - 1, true
  end
  c.cost = c.cost or l.cost
  l.choice = c
  return math.max(at, due(c.e - c.cost + l.cost))
end

-- alone is when the call would have its turn under this limit only, with its own number.
function paced.alone(l)
  on(l)
  return math.max(now, due(l.own or l.kept or s.tail + l.cost))
end

function paced.commit(l, at)
  on(l)
  local c = l.choice
  if c.how == 'kept' then return end
  if c.how == 'new' then
    local gap = c.e - l.cost - s.tail
    if gap > 0 then redis.call('ZADD', FREE, c.e - l.cost, entry(gap, digits(c.e - l.cost))) end
    s.tail = c.e
  elseif c.how == 'free' then
    redis.call('ZREM', FREE, c.member)
    local before = c.e - c.cost - (c.last - c.size)
    if before > 0 then redis.call('ZADD', FREE, c.e - c.cost, entry(before, digits(c.e - c.cost))) end
    if c.last > c.e then redis.call('ZADD', FREE, c.last, entry(c.last - c.e, digits(c.last))) end
  elseif c.how == 'early' then -- its holder gets another one
    if not l.own then
      s.tail = s.tail + l.cost
      l.own = s.tail
    end
    redis.call('ZADD', WAITING, l.own, c.member)
    redis.call('ZADD', CLAIMED, l.own, moved_to(c.member))
    l.own = nil
  end
  redis.call('ZREM', WAITING, l.name)
  if l.own and c.how ~= 'own' then giveback(l.own, l.cost) end
  l.own = nil
  if l.had or l.wide ~= l.name then forget(l) end
  if l.kept and due(l.kept) > at then giveback(l.kept, l.size) end
  counted()
  if c.late then
    local late = math.ceil(at - until_when(c.e, l.cost) + 1)
    if late > 0 then
      unused(math.floor(late / interval))
      shift(late)
    end
  end
  if l.spent >= 0 then watch() end
  finalize(c.e, c.cost, at)
  remember(entry(c.cost, id), c.e)
  l.kept, l.size = c.e, c.cost
end

function paced.latest(l)
  on(l)
  return until_when(l.choice.e, l.choice.cost)
end

-- hold lets the call wait under a number of its own: that which it has, if its turn is not
-- near any more.
function paced.hold(l)
  on(l)
  if l.own then return end
  if l.kept then
    forget(l)
    redis.call('ZADD', WAITING, l.kept, l.name)
    if l.kept == s.final then sink() end
    l.own, l.kept = l.kept, nil
    return
  end
  local e, block = offer(l.cost)
  accept(e, l.cost, block)
  redis.call('ZADD', WAITING, e, l.name)
  l.own = e
end

-- release gives back whatever number the call has.
function paced.release(l)
  on(l)
  local e = l.own or l.kept or l.had
  if not e then return false end
  local size = l.own and l.cost or l.size
  redis.call('ZREM', WAITING, l.name)
  forget(l)
  l.own, l.kept, l.had = nil, nil, nil
  return giveback(e, size)
end

function paced.settle(l)
  on(l)
  if l.spent > l.cost then
    owe(l.spent - l.cost)
  else
    refund(l.cost - l.spent, l.at)
  end
end

function paced.save(l)
  on(l)
  save()
  return { l.choice and l.choice.e or l.own or 0, header({}) }
end

-- ---------------------------------------------------------------------------
-- What the other kinds have in common. Their state is a hash, too; the waiting list has
-- for each call that waits the moment at which it is expected.

-- fields reads the state: epoch, seenMicros, pauseMicros and those of the kind. What is not
-- there yet is nil.
local function fields(l, ...)
  clock()
  local names = { 'epoch', 'seenMicros', 'pauseMicros', ... }
  local values = redis.call('HMGET', l.keys[1], unpack(names))
  l.state = {}
  for i, name in ipairs(names) do
    local text = values[i]
    local x = tonumber(text or '')
    if text and (not finite(x) or x < 0) then return bad('BADSTATE', name, 'a number of at least 0', text) end
    l.state[name] = x
  end
  l.fresh = not l.state.epoch
  if l.fresh and redis.call('EXISTS', l.keys[1]) == 1 then return bad('BADSTATE', 'epoch', 'a whole number') end
  for i = 2, 4 do redis.call('ZCARD', l.keys[i]) end -- a list, or an error that changes nothing
  l.pause = l.state.pauseMicros or 0
  l.epoch = l.state.epoch or now
  l.name = entry(l.cost, id)
  -- What the caller remembers is newer than the state if that was lost, or is older data.
  l.lost = l.remembers and (l.fresh or l.remembers[1] == l.epoch and (l.state.seenMicros or 0) < l.remembers[2])
end

-- remembered reads what the caller knows: numbers that the reply gave it, joined by spaces.
local function remembered(l, text, most)
  if text == '' then return end
  l.remembers = {}
  for word in string.gmatch(text or '', '%S+') do
    local x = tonumber(word)
    if not finite(x) or #l.remembers >= most then return bad('BADARG', 'known', 'what a reply said', text) end
    l.remembers[#l.remembers + 1] = x
  end
  if #l.remembers < 2 then bad('BADARG', 'known', 'what a reply said', text) end
end

local function expected(l)
  redis.call('ZREMRANGEBYSCORE', l.keys[2], '-inf', '(' .. digits(math.max(0, now - NAP_MICROS)))
  l.own = score(l.keys[2], l.name)
end

-- ahead is how many permits those want who wait and are expected before this call.
local function ahead(l)
  if l.own then return 0 end -- it is awake, and its turn was to come about now
  local head = redis.call('ZRANGE', l.keys[2], 0, SCAN - 1)
  local permits, calls = 0, redis.call('ZCARD', l.keys[2])
  for i = 1, #head do permits = permits + (costof(head[i]) or 1) end
  return #head > 0 and math.ceil(permits / #head * calls) or 0
end

local function alive(l, last)
  local ttl = digits(math.ceil(math.max(0, last - now) / 1000) + LINGER_MILLIS)
  for i = 1, 4 do redis.call('PEXPIRE', l.keys[i], ttl) end
end

local function begin_count(l)
  if l.fresh then redis.call('DEL', l.keys[2], l.keys[3], l.keys[4]) end
  redis.call('HSET', l.keys[1], 'epoch', digits(l.epoch), 'seenMicros', digits(math.max(now, 0)))
  expected(l)
end

local function hold_count(l)
  if l.kept then l.kind.release(l) end
  l.own = l.own or math.ceil(l.kind.alone(l))
  redis.call('ZADD', l.keys[2], digits(l.own), l.name)
end

-- release_count forgets a call, and what it used if `undo` knows.
local function release_count(l, undo)
  local waited = redis.call('ZREM', l.keys[2], l.name) == 1
  l.own = nil
  local at = l.kept
  l.kept = nil
  if at then undo(l, at) end
  return waited or at ~= nil
end

-- ---------------------------------------------------------------------------
-- quota: so many permits in each window of the calendar. The state has a field
-- w:<begin> with what was used, for each window that has calls; the claimed list has
-- the moments of the last calls.
local quota = {}

function quota.read(l)
  off()
  base = l.base
  l.permits = count(1, 'permits', 1, 1000000000)
  l.margin = number(2, 'marginMicros', 0)
  remembered(l, ARGV[base + 3], 8)
  l.windows = {}
  for i = 4, l.width do
    l.windows[i - 3] = count(i, 'window', 0, MOST)
    if i > 4 and l.windows[i - 3] <= l.windows[i - 4] then bad('BADARG', 'window', 'after the one before', ARGV[base + i]) end
  end
  if #l.windows < 2 then bad('BADARG', 'windows', 'at least two moments', #l.windows) end
  if l.cost > l.permits then bad('BADARG', 'cost', 'at most the quota of ' .. digits(l.permits), digits(l.cost)) end
  base = 0
end

local function window_of(l, at)
  for k = 1, #l.windows - 1 do
    if at >= l.windows[k] and at < l.windows[k + 1] then return k end
  end
end

function quota.load(l)
  local names = {}
  for k = 1, #l.windows - 1 do names[k] = 'w:' .. digits(l.windows[k]) end
  l.names = names
  fields(l, unpack(names))
  if problem then return end
  l.amount = {}
  for k, name in ipairs(names) do l.amount[k] = l.state[name] or 0 end
  if l.lost then -- pairs of a window and what was used
    for i = 3, #l.remembers, 2 do
      local k = window_of(l, l.remembers[i])
      if k then l.amount[k] = math.max(l.amount[k], l.remembers[i + 1] or 0) end
    end
  end
  l.first = window_of(l, now)
  l.stale = not l.first
end

function quota.begin(l)
  begin_count(l)
  l.kept = score(l.keys[4], l.name)
  if l.kept and window_of(l, l.kept) ~= l.first and l.kept < now then l.kept = nil end -- unused, and gone
  l.ahead = ahead(l)
end

function quota.exceeds() return false end

function quota.earliest(l, at)
  at = math.max(at, l.pause)
  local before = l.ahead
  for k = l.first, #l.windows - 1 do
    local from, to = math.max(at, l.windows[k] + l.margin), l.windows[k + 1] - l.margin
    if from < to then
      if l.kept and window_of(l, l.kept) == k then return from end
      local left = math.max(0, l.permits - l.amount[k])
      if before + l.cost <= left then return from end
      before = math.max(0, before - left)
    end
  end
  local last = l.windows[#l.windows]
  return last + l.margin + math.floor(before / l.permits) * (last - l.windows[#l.windows - 1])
end

function quota.alone(l) return l.own or quota.earliest(l, now) end

local function use_window(l, k, permits)
  l.amount[k] = math.max(0, l.amount[k] + permits)
end

function quota.commit(l, at)
  redis.call('ZREM', l.keys[2], l.name)
  l.own = nil
  local k = window_of(l, at)
  local before = l.kept and window_of(l, l.kept)
  if before and before ~= k then use_window(l, before, -l.cost) end
  if before ~= k then use_window(l, k, l.cost) end
  l.kept = math.ceil(at)
  redis.call('ZREMRANGEBYSCORE', l.keys[4], '-inf', '(' .. digits(math.max(0, now - ALIVE_MICROS))) -- they were made
  redis.call('ZADD', l.keys[4], digits(l.kept), l.name)
end

function quota.latest(l, at)
  local k = window_of(l, at)
  return k and l.windows[k + 1] - l.margin or at
end

quota.hold = hold_count

function quota.release(l)
  return release_count(l, function(l, at)
    local k = window_of(l, at)
    redis.call('ZREM', l.keys[4], l.name)
    if k then use_window(l, k, -l.cost) end
  end)
end

function quota.settle(l)
  local k = window_of(l, l.at)
  if k then use_window(l, k, l.spent - l.cost) end
end

function quota.save(l)
  local known, args, fresh_window = { digits(l.epoch), digits(now) }, {}, false
  for k = 1, #l.windows - 1 do
    if l.windows[k + 1] > now and l.amount[k] > 0 or l.state[l.names[k]] then
      fresh_window = fresh_window or not l.state[l.names[k]]
      args[#args + 1], args[#args + 2] = l.names[k], digits(l.amount[k])
    end
    if l.windows[k + 1] > now and #known < 7 then
      known[#known + 1], known[#known + 2] = digits(l.windows[k]), digits(l.amount[k])
    end
  end
  if #args > 0 then redis.call('HSET', l.keys[1], unpack(args)) end
  for _, name in ipairs(fresh_window and redis.call('HGETALL', l.keys[1]) or {}) do
    local begins = tonumber(string.match(name, '^w:(%d+)$') or '')
    if begins and begins < l.windows[1] then redis.call('HDEL', l.keys[1], name) end
  end
  local last = redis.call('ZREVRANGE', l.keys[2], 0, 0, 'WITHSCORES')[2]
  alive(l, math.max(l.windows[#l.windows], tonumber(last or '0')))
  return { l.kept and 1 or 0, table.concat(known, ' ') }
end

-- ---------------------------------------------------------------------------
-- rolling: never more than so many permits in any stretch of time of that length. The
-- free list is a log here: the calls that still count, by their moments. The field used
-- is the sum of their costs.
local rolling = {}

function rolling.read(l)
  off()
  base = l.base
  l.permits = count(1, 'permits', 1, 1000000)
  l.window = number(2, 'windowMicros', 1)
  remembered(l, ARGV[base + 3], 4)
  if l.width ~= 3 then bad('BADARG', 'arguments', '3', l.width) end
  if l.cost > l.permits then bad('BADARG', 'cost', 'at most the ' .. digits(l.permits) .. ' of the window', digits(l.cost)) end
  base = 0
end

function rolling.load(l)
  fields(l, 'used')
  if problem then return end
  l.amount = l.state.used or 0
end

function rolling.begin(l)
  local seen = l.state.seenMicros
  begin_count(l)
  local log = l.keys[3]
  if seen and now < seen then -- the clock went back, and the calls with it
    local all = redis.call('ZRANGE', log, 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do redis.call('ZADD', log, tonumber(all[i + 1]) - (seen - now), all[i]) end
  end
  local gone = redis.call('ZRANGEBYSCORE', log, '-inf', digits(math.floor(now - l.window)))
  for i = 1, #gone do l.amount = l.amount - (costof(gone[i]) or 0) end
  if #gone > 0 then redis.call('ZREMRANGEBYSCORE', log, '-inf', digits(math.floor(now - l.window))) end
  l.amount = math.max(0, l.amount)
  if l.lost and (l.remembers[3] or 0) > l.amount then -- as if all that is missing was used last
    local missing = l.remembers[3] - l.amount
    local last = math.min(l.remembers[4] or now, now + 60000000)
    redis.call('ZADD', log, digits(last), entry(missing, 'lost-' .. digits(now)))
    l.amount = l.remembers[3]
  end
  l.kept = score(log, l.name)
  l.ahead = ahead(l)
end

function rolling.exceeds() return false end

-- leaves is when the log's first calls, that make up so many permits, count no more.
local function leaves(l, permits)
  local at, from, log = now, 0, l.keys[3]
  while permits > 0 do
    local head = redis.call('ZRANGE', log, from, from + SCAN - 1, 'WITHSCORES')
    for i = 1, #head, 2 do
      at = math.max(at, tonumber(head[i + 1]) + l.window)
      permits = permits - (costof(head[i]) or 0)
      if permits <= 0 then return at end
    end
    if #head < 2 * SCAN then -- those that wait come before, a window full at a time
      return at + (1 + math.floor((permits - 1) / l.permits)) * l.window
    end
    from = from + SCAN
  end
  return at
end

-- A call whose moment is over does not simply get a later one: others may count on it to
-- leave the window in time.
function rolling.earliest(l, at)
  at = math.max(at, l.pause)
  if l.kept and at <= l.kept then return l.kept end
  if l.kept then
    local last = redis.call('ZREVRANGE', l.keys[3], 0, 0, 'WITHSCORES')[2]
    if tonumber(last) <= l.kept then return at end -- nobody counts on it
  end
  return math.max(at, leaves(l, l.amount + l.ahead + l.cost - l.permits))
end

function rolling.alone(l) return l.own or rolling.earliest(l, now) end

function rolling.commit(l, at)
  redis.call('ZREM', l.keys[2], l.name)
  l.own = nil
  if not l.kept then l.amount = l.amount + l.cost end
  l.kept = math.ceil(at)
  redis.call('ZADD', l.keys[3], digits(l.kept), l.name)
end

function rolling.latest(_, at) return at end

rolling.hold = hold_count

function rolling.release(l)
  return release_count(l, function(l)
    if redis.call('ZREM', l.keys[3], l.name) == 1 then l.amount = math.max(0, l.amount - l.cost) end
  end)
end

function rolling.settle(l)
  local at = score(l.keys[3], l.name)
  if not at then return end
  redis.call('ZREM', l.keys[3], l.name)
  if l.spent > 0 then redis.call('ZADD', l.keys[3], digits(at), entry(l.spent, id)) end
  l.amount = math.max(0, l.amount + l.spent - l.cost)
end

function rolling.save(l)
  redis.call('HSET', l.keys[1], 'used', digits(l.amount))
  local last = redis.call('ZREVRANGE', l.keys[3], 0, 0, 'WITHSCORES')[2]
  local waits = redis.call('ZREVRANGE', l.keys[2], 0, 0, 'WITHSCORES')[2]
  alive(l, math.max(tonumber(last or '0') + l.window, tonumber(waits or '0')))
  return { l.kept and 1 or 0, table.concat({ digits(l.epoch), digits(now), digits(l.amount), digits(tonumber(last or '0')) }, ' ') }
end

-- ---------------------------------------------------------------------------
-- warming: Guava's SmoothWarmingUp. What one permit costs of time grows with how many are
-- stored, from one interval up to COLD; they are stored while nobody calls. A call is let
-- through when the permits of those before it are paid for.
local COLD = 3
local LATE_MICROS = 1000000 -- a call that asks again so late was not made yet
local warming = {}

function warming.read(l)
  off()
  base = l.base
  l.interval = number(1, 'intervalMicros', 1)
  l.period = number(2, 'periodMicros', 1)
  remembered(l, ARGV[base + 3], 4)
  if l.width ~= 3 then bad('BADARG', 'arguments', '3', l.width) end
  base = 0
  l.threshold = 0.5 * l.period / l.interval
  l.most = l.threshold + 2 * l.period / (l.interval + COLD * l.interval)
  l.slope = (COLD - 1) * l.interval / (l.most - l.threshold)
end

function warming.load(l)
  fields(l, 'stored', 'nextMicros', 'lastMicros')
  if problem then return end
  l.stored, l.next = l.state.stored or l.most, l.state.nextMicros or now -- it begins cold
  if l.lost then -- or the state expired, in a silence since then: that counts as idle time
    l.stored, l.next = l.remembers[3] or l.stored, math.max(l.state.nextMicros or 0, l.remembers[4] or l.next)
  end
  l.stored = math.min(l.stored, l.most)
  if l.state.seenMicros and now < l.state.seenMicros then l.next = l.next - (l.state.seenMicros - now) end
end

function warming.begin(l)
  begin_count(l)
  l.kept = score(l.keys[4], l.name)
  l.last = l.kept and l.kept == l.state.lastMicros and now - l.kept <= LATE_MICROS
  if l.kept and l.kept < now and not l.last then l.kept = nil end -- it may have been used
  l.ahead = ahead(l)
end

function warming.exceeds() return false end

local function accrue(l, at)
  if at > l.next then l.stored, l.next = math.min(l.most, l.stored + (at - l.next) * l.most / l.period), at end
end

-- price is the time that permits cost, the stored ones first.
local function price(l, permits)
  local stored = math.min(permits, l.stored)
  local above = math.min(stored, math.max(0, l.stored - l.threshold))
  local function each(x) return l.interval + x * l.slope end
  local high = l.stored - l.threshold
  return above * (each(high) + each(high - above)) / 2 + (permits - above) * l.interval
end

function warming.earliest(l, at)
  at = math.max(at, l.pause)
  if l.kept and at <= l.kept then return l.kept end
  if l.kept and l.last then return at end -- those behind it come later
  return math.max(at, l.next + l.ahead * l.interval)
end

function warming.alone(l) return l.own or warming.earliest(l, now) end

function warming.commit(l, at)
  redis.call('ZREM', l.keys[2], l.name)
  l.own = nil
  if l.kept and at <= l.kept then return end
  if l.kept and l.last then
    l.next = l.next + at - l.kept
  else
    accrue(l, at)
    local cost = price(l, l.cost)
    l.stored = l.stored - math.min(l.stored, l.cost)
    l.next = l.next + cost
  end
  l.kept = math.ceil(at)
  l.state.lastMicros = l.kept
  redis.call('ZREMRANGEBYSCORE', l.keys[4], '-inf', '(' .. digits(now))
  redis.call('ZADD', l.keys[4], digits(l.kept), l.name)
end

function warming.latest(_, at) return at end

warming.hold = hold_count

function warming.release(l)
  return release_count(l, function(l, at)
    redis.call('ZREM', l.keys[4], l.name)
    if at == l.state.lastMicros then l.next = l.next - l.cost * l.interval end -- as if it had been warm
  end)
end

-- Before each call the provider's bucket is full again, so that what one did not use is of
-- use to the next one only.
function warming.settle(l)
  if l.spent > l.cost or math.abs(l.at - (l.state.lastMicros or 0)) <= 1 then
    l.next = l.next + (l.spent - l.cost) * l.interval
  end
end

function warming.save(l)
  redis.call('HSET', l.keys[1], 'stored', precise(l.stored), 'nextMicros', precise(l.next),
    'lastMicros', digits(l.state.lastMicros or 0))
  local waits = redis.call('ZREVRANGE', l.keys[2], 0, 0, 'WITHSCORES')[2]
  alive(l, math.max(l.next + l.period, tonumber(waits or '0')))
  return { l.kept and 1 or 0, table.concat({ digits(l.epoch), digits(now), precise(l.stored), precise(l.next) }, ' ') }
end

-- ---------------------------------------------------------------------------

local kinds = { paced = paced, quota = quota, rolling = rolling, warming = warming }

-- read reads the limits, from ARGV[i] on: kind, cost, spent (-1: not known), atMicros (of
-- the turn; 0: there was none), how many arguments come, and these.
local function read_limits(i)
  local k = 0
  while ARGV[i] and not problem do
    off()
    local l = { kind = kinds[ARGV[i]], keys = { KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4] }, base = i + 4 }
    if not l.kind then bad('BADARG', 'kind', 'paced, quota, rolling or warming', ARGV[i]) end
    l.cost = count(i + 1, 'cost', 1, 1000000000)
    l.spent = count(i + 2, 'spent', -1, 1000000000)
    l.at = number(i + 3, 'atMicros', 0)
    l.width = count(i + 4, 'width', 2, 64)
    if not problem and (not l.keys[4] or not ARGV[l.base + l.width]) then
      bad('BADARG', 'arguments', 'complete, with four keys for each limit', #ARGV)
    end
    if not problem then l.kind.read(l) end
    limits[#limits + 1] = l
    i, k = l.base + (l.width or 0) + 1, k + 4
  end
  off()
  if #limits == 0 or k ~= #KEYS then bad('BADARG', 'limits', 'one for each four keys', #KEYS) end
end

-- load_limits brings all up to now, or none: what is wrong with one changes nothing.
local function load_limits()
  for _, l in ipairs(limits) do
    l.kind.load(l)
    if problem then return end
  end
end

local function begin_limits()
  for _, l in ipairs(limits) do l.kind.begin(l) end
end

local function save_limits(reply)
  for _, l in ipairs(limits) do reply[#reply + 1] = l.kind.save(l) end
  return reply
end
