-- line.lua: the state of one limit and its arithmetic.
-- Stands in front of every verb; it only defines locals and calls nothing.
--
-- A limit numbers its permits 1, 2, 3 ... in the order in which they become
-- available. A ticket of cost n with number e owns the permits (e-n, e]. Permit
-- e is due at anchorMicros + (e - anchor) * intervalMicros. Everything is worked
-- out from that anchor, never added up call by call, so nothing drifts.
--
-- Units: micros are whole microseconds of Redis's clock (or of a duration);
-- numbers, costs and bursts are whole permits. All stay below 2^53.

local STATE, WAITING, FREE, CLAIMED = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- How many entries at the head of a list one call looks at. Entries of another
-- cost, or dead ones, may stand before the one that it wants; this bounds the
-- work that they cause.
local SCAN = 64

-- The longest line, and the longest time to fill a bucket: 100 years.
local LONGEST_MICROS = 100 * 365.25 * 86400 * 1000000

local FIELDS = {
  'tail', 'anchor', 'anchorMicros', 'intervalMicros', 'burst',
  'final', 'floor', 'free', 'seenMicros', 'epoch',
}

local now, interval, burst -- micros, micros per permit, permits
local s = {}               -- the state, by the names in FIELDS
local fresh = false        -- there was no state: a full bucket, or lost data
local moved = false        -- a field other than tail, final and seenMicros changed
local problem              -- the error reply of an argument or field that is wrong

local function finite(x)
  return x ~= nil and x == x and x > -math.huge and x < math.huge
end

local function whole(x, least)
  return finite(x) and x == math.floor(x) and x >= least and x < 9007199254740992
end

-- digits writes a whole number. (`..` would write large ones with an exponent.)
local function digits(x)
  return string.format('%.0f', x)
end

-- bad notes the first problem, in words that name the field and its value.
local function bad(code, name, want, value)
  problem = problem or redis.error_reply(
    code .. ' ' .. name .. ' must be ' .. want .. ', got "' .. tostring(value or 'nothing') .. '"')
end

-- number reads ARGV[i] as a finite number of at least `least`.
local function number(i, name, least)
  local x = tonumber(ARGV[i])
  if not finite(x) or x < least then
    bad('BADARG', name, 'a number of at least ' .. digits(least), ARGV[i])
  end
  return x
end

-- count reads ARGV[i] as a whole number from `least` up to `most`.
local function count(i, name, least, most)
  local x = tonumber(ARGV[i])
  if not whole(x, least) or x > most then
    bad('BADARG', name, 'a whole number from ' .. digits(least) .. ' to ' .. digits(most), ARGV[i])
    return least
  end
  return x
end

-- limit reads the limit that the caller works with.
local function limit()
  interval = number(1, 'intervalMicros', 1)
  burst = count(2, 'burst', 1, 1000000000)
  if not problem and burst * interval > LONGEST_MICROS then
    bad('BADARG', 'burst', 'at most 100 years of permits', ARGV[2])
  end
end

local function due(e)
  return s.anchorMicros + (e - s.anchor) * interval
end

-- load reads the clock and the state, and brings the state up to now. A state
-- that is not there begins with permit 0 due `reach` micros from now: the line
-- as the caller remembers it after data was lost, or a full bucket.
local function load(reach)
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  local values = redis.call('HMGET', STATE, unpack(FIELDS))
  if not values[1] then
    if redis.call('EXISTS', STATE) == 1 then
      return bad('BADSTATE', 'tail', 'a whole number')
    end
    fresh, moved = true, true
    s = { tail = 0, anchor = 0, anchorMicros = now + math.max(reach, -burst * interval),
      intervalMicros = interval, burst = burst, final = 0, floor = 0, free = 0,
      seenMicros = now, epoch = now }
    return
  end
  for i, name in ipairs(FIELDS) do
    local x = tonumber(values[i] or '')
    if name == 'anchorMicros' then -- before 1970, when the bucket takes that long to fill
      if not finite(x) then bad('BADSTATE', name, 'a number', values[i]) end
    elseif name == 'intervalMicros' then
      if not finite(x) or x < 1 then bad('BADSTATE', name, 'a number of at least 1', values[i]) end
    elseif not whole(x, 0) then
      bad('BADSTATE', name, 'a whole number', values[i])
    end
    s[name] = x
  end
  if problem then return end

  -- Redis's clock went back (NTP, failover): the line goes back with it. The
  -- time between the last call and the step is unknown, so the line is that much
  -- late, while final tickets keep their moment: none before them may be used
  -- after them.
  if now < s.seenMicros then
    s.anchorMicros = s.anchorMicros - (s.seenMicros - now)
    s.floor = math.max(s.floor, s.final)
    moved = true
  end
  s.seenMicros = now

  -- Another rate than before: calls that wait are re-timed, in order.
  if interval ~= s.intervalMicros then
    local was = s.anchorMicros + (s.tail - s.anchor) * s.intervalMicros
    s.anchorMicros = now + math.min(math.ceil((was - now) / s.intervalMicros * interval), LONGEST_MICROS)
    s.anchor = s.tail
    s.intervalMicros = interval
    moved = true
  end
  if burst ~= s.burst then
    s.burst = burst
    moved = true
  end

  -- The bucket overflowed while nobody came: what did not fit is gone. The new
  -- anchor is not rounded: rounded up, the last permit of a full bucket would
  -- always be a microsecond ahead; rounded down, it would overflow again.
  local lowest = now - burst * interval
  local last = due(s.tail)
  if last < lowest then
    s.tail = s.tail + math.ceil((lowest - last) / interval)
    s.anchor, s.anchorMicros = s.tail, lowest
    moved = true
  end
end

-- uses makes sure that lists are lists. A script must have asked for every list
-- that it may come to before it writes anything: then an error changes nothing.
local used = {}
local function uses(...)
  for _, list in ipairs({ ... }) do
    if not used[list] then
      redis.call('ZCARD', list)
      used[list] = true
    end
  end
end

-- begin prepares the lists of a new state: lists that outlived their state are
-- emptied, as their numbers mean nothing in the new one.
local function begin()
  if moved then uses(WAITING, FREE, CLAIMED) end
  if fresh then redis.call('DEL', WAITING, FREE, CLAIMED) end
end

-- A ticket fits while its permits are still in the bucket.
local function fits(e, cost)
  return e - cost >= s.floor and now <= due(e - cost) + burst * interval
end

-- A ticket is dead when its permits are gone and the line cannot be wound back
-- to it: a later ticket was let through, or the line was wound past it.
local function dead(e, cost)
  if e - cost < s.floor then return true end
  return e <= s.final and now > due(e - cost) + burst * interval
end

-- List entries read "<cost>:<id>", in the free list "<cost>:<number>".
local function entry(cost, id)
  return digits(cost) .. ':' .. id
end

local function costof(member)
  local cost = string.match(member, '^(%d+):')
  return cost and tonumber(cost)
end

local function score(list, member)
  return tonumber(redis.call('ZSCORE', list, member) or nil)
end

-- first finds the earliest number of a list whose cost satisfies `suits`, and
-- clears those that are `gone` from before it.
local function first(list, gone, suits)
  for _, last in ipairs({ 0, SCAN - 1 }) do
    local head = redis.call('ZRANGE', list, 0, last, 'WITHSCORES')
    for i = 1, #head, 2 do
      local member, e = head[i], tonumber(head[i + 1])
      local cost = costof(member)
      if cost and gone(e, cost) then
        redis.call('ZREM', list, member)
      elseif cost and suits(cost) then
        return e, member, cost
      end
    end
    if #head < 2 * (last + 1) then return end
  end
end

local function counted()
  local free = redis.call('ZCARD', FREE)
  if free ~= s.free then s.free, moved = free, true end
end

-- offer finds the number that a new ticket would get: the earliest free one
-- that is large enough, else the next at the tail. The second result is what
-- `accept` needs to take it. A late free number is gone: nobody waits under it.
local function offer(cost)
  if s.free > 0 then
    uses(WAITING, FREE, CLAIMED)
    local e, member, size = first(FREE,
      function(e, size) return not fits(e, size) end,
      function(size) return size >= cost end)
    counted()
    if e then return e - size + cost, { e = e, member = member, size = size } end
  end
  return s.tail + cost
end

local function accept(e, cost, block)
  if not block then
    s.tail = e
    return
  end
  redis.call('ZREM', FREE, block.member)
  if block.size > cost then
    local rest = block.size - cost
    redis.call('ZADD', FREE, block.e, entry(rest, digits(block.e)))
  end
  counted()
end

-- sink lowers the final mark past numbers that became final and were not used:
-- those that are free or waiting again. So they can still be late, not dead.
local function sink()
  local cost
  repeat
    local at = digits(s.final)
    cost = nil
    for _, list in ipairs({ FREE, WAITING }) do
      local member = redis.call('ZRANGEBYSCORE', list, at, at, 'LIMIT', 0, 1)[1]
      cost = cost or member and costof(member)
    end
    s.final = s.final - (cost or 0)
  until (cost or 0) == 0
end

-- giveback returns an unused ticket to the line: at the tail the line steps
-- back, elsewhere the number becomes free. False when its permits are gone.
local function giveback(e, cost)
  uses(WAITING, FREE)
  local highest = e == s.final
  if e > s.tail or e - cost < s.floor or now > due(e) + burst * interval then return false end
  if e == s.tail then
    s.tail = e - cost
    while s.free > 0 do
      local top = redis.call('ZREVRANGE', FREE, 0, 0, 'WITHSCORES')
      local size = top[1] and costof(top[1])
      if not size or tonumber(top[2]) ~= s.tail or s.tail - size < s.floor then break end
      redis.call('ZREM', FREE, top[1])
      s.tail = s.tail - size
      counted()
    end
    counted()
    s.final = math.min(s.final, s.tail)
    if highest then sink() end
    return true
  end
  if not fits(e, cost) then return false end
  redis.call('ZADD', FREE, e, entry(cost, digits(e)))
  counted()
  if highest then sink() end
  return true
end

-- wind makes a late ticket due now by moving the whole line back. It is only
-- done when nothing later was let through, so the bucket is full: everyone
-- behind keeps order and spacing, and the fleet comes back at the paced rate
-- instead of all at once. Numbers before it can not be used any more.
local function wind(e, cost)
  s.anchorMicros = s.anchorMicros + math.ceil(now - due(e))
  s.floor = e - cost
  moved = true
end

-- remember keeps a final ticket for an id that asks again. Those that can not be
-- asked for any more are forgotten.
local function remember(member, e)
  local gone = math.floor(s.tail - (due(s.tail) - now) / interval - burst)
  redis.call('ZREMRANGEBYSCORE', CLAIMED, '-inf', '(' .. digits(math.min(gone, s.final)))
  redis.call('ZADD', CLAIMED, e, member)
end

-- again finds the final ticket of an id that asks once more, as the reply was
-- lost. Where its turn has just passed (by no more than `bound`) and nothing
-- later was let through, the line is wound back to it: asking twice costs no turn.
local function again(member, bound)
  local e = score(CLAIMED, member)
  if not e then return end
  local cost = costof(member)
  if not fits(e, cost) then
    if e ~= s.final or e - cost < s.floor or now - due(e) > bound then return end
    wind(e, cost)
  end
  return e
end

-- wait is rounded up: a caller that sleeps it is never early.
local function wait(e)
  return math.max(0, math.ceil(due(e) - now))
end

-- save writes the state. Keys live past the last number given out and past the
-- moment at which the bucket is full again, so that an expired state and a full
-- bucket mean the same.
local function save()
  local last = due(s.tail)
  local nextFree = string.format('%.3f', last / 1000)
  if moved then
    local args = { 'nextFreeTicketMillis', nextFree }
    for _, name in ipairs(FIELDS) do
      args[#args + 1] = name
      args[#args + 1] = s[name]
    end
    redis.call('HSET', STATE, unpack(args))
  else
    redis.call('HSET', STATE, 'tail', s.tail, 'final', s.final,
      'seenMicros', s.seenMicros, 'nextFreeTicketMillis', nextFree)
  end
  -- Counted in whole milliseconds of the clock, as Redis does: the keys of one
  -- line then expire together, whichever call touched which of them.
  local ttl = math.ceil((last + burst * interval) / 1000) - math.floor(now / 1000) + 1000
  redis.call('PEXPIRE', STATE, ttl)
  for k = 2, 4 do
    if moved or used[KEYS[k]] then redis.call('PEXPIRE', KEYS[k], ttl) end
  end
end
