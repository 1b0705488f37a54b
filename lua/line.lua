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
local base = 0 -- the arguments of the line begin behind this one

-- How many entries at the head of a list one call looks at. Entries of another
-- cost, or dead ones, may stand before the one that it wants; this bounds the
-- work that they cause.
local SCAN = 64

-- The longest line, and the longest time to fill a bucket: 100 years.
local LONGEST_MICROS = 100 * 365.25 * 86400 * 1000000

-- Of numbers that passed unused, who had one of so many before the last is known.
local LOSSES = 10000

local MOST = 9007199254740991 -- the largest whole number that a double holds exactly

local STEP_MICROS = 1000000   -- a clock that goes ahead by more than this was stepped
local ALIVE_MICROS = 60000000 -- a process counts for so long after its last call
local COUNT_MICROS = 10000000 -- between two counts of the processes
local LINGER_MILLIS = 91000   -- a state that processes use lives for so long after a call; see quick.lua

local FIELDS = {
  'tail', 'anchor', 'anchorMicros', 'intervalMicros', 'burst',
  'final', 'floor', 'free', 'seenMicros', 'epoch',
  'live', 'countedMicros', 'idle', 'resumeMicros', 'pauseMicros', 'pausedMicros', 'gen',
  'setIntervalMicros', 'setBurst', 'setUntilMicros', 'settledMicros',
}

-- What most lines never need is not in their states until it is.
local RARE = { pauseMicros = '0', pausedMicros = '0', gen = '0', setIntervalMicros = '0', setBurst = '0', setUntilMicros = '0',
  settledMicros = '0' }

local now, interval, burst -- micros, micros per permit, permits
local ours                 -- interval and burst, as the caller works with them
local s = {}               -- the state, by the names in FIELDS
local fresh = false        -- there was no state: a full bucket, or lost data
local moved = false        -- a field other than tail, final, plain and seenMicros changed
local turned = false       -- final tickets have other turns than they were told
local problem              -- the error reply of an argument or field that is wrong

-- What the caller remembers of the line, and who it is: ARGV 3 to 8.
local caller = { reach = -LONGEST_MICROS, later = 0, epoch = 0, seen = 0, clock = 0, member = '', serial = 0 }

local own            -- what the state knows of the caller: seen, serial, trace
local witness        -- when the state saw the caller last, or else its process
local replay = false -- this very call was carried out before, and its reply was lost
local trace = ''     -- the numbers that this call gave, for the case that it is repeated
local epochRead = 0  -- the state's epoch when it was read
local plainRead      -- what it says then of plain; see quick.lua
local quiet = 0      -- micros since anybody's last call
local skipped, top   -- permits that overflowed, and the tail after that

local function finite(x)
  return x ~= nil and x == x and x > -math.huge and x < math.huge
end

local function whole(x, least)
  return x ~= nil and x >= least and x <= MOST and x % 1 == 0
end

-- digits writes a whole number. (`..` would write large ones with an exponent. Where a C
-- long is short, %d does not do; elsewhere it takes a third of the time.)
local WHOLE = string.format('%d', MOST) == '9007199254740991' and '%d' or '%.0f'
local function digits(x)
  return string.format(WHOLE, x)
end

-- exact writes a number as the state holds it. (Redis would take longer.)
local function exact(x)
  return x % 1 == 0 and digits(x) or x
end

-- bad notes the first problem, in words that name the field and its value.
local function bad(code, name, want, value)
  problem = problem or redis.error_reply(
    code .. ' ' .. name .. ' must be ' .. want .. ', got "' .. tostring(value or 'nothing') .. '"')
end

-- number reads ARGV[i] as a finite number of at least `least`.
local function number(i, name, least)
  local text = ARGV[base + i]
  local x = tonumber(text)
  if not finite(x) or x < least then
    bad('BADARG', name, 'a number of at least ' .. digits(least), text)
    return least
  end
  return x
end

-- count reads ARGV[i] as a whole number from `least` up to `most`.
local function count(i, name, least, most)
  local text = ARGV[base + i]
  local x = tonumber(text)
  if not whole(x, least) or x > most then
    bad('BADARG', name, 'a whole number from ' .. digits(least) .. ' to ' .. digits(most), text)
    return least
  end
  return x
end

-- limit reads the limit that the caller works with.
local function limit()
  interval = number(1, 'intervalMicros', 1)
  burst = count(2, 'burst', 1, 1000000000)
  if not problem and burst * interval > LONGEST_MICROS then
    bad('BADARG', 'burst', 'at most 100 years of permits', ARGV[base + 2])
  end
  ours = { interval, burst }
end

-- reach reads "<micros>" or "<micros>+<micros>".
local function reach()
  local known, later = string.match(ARGV[base + 3] or '', '^([^+]+)%+?(.*)$')
  known, later = tonumber(known or ''), tonumber(later == '' and '0' or later)
  if not finite(known) or known < -LONGEST_MICROS or not finite(later) or later < 0 then
    return bad('BADARG', 'reachMicros', 'a number of at least ' .. digits(-LONGEST_MICROS), ARGV[base + 3])
  end
  caller.reach = math.min(known, LONGEST_MICROS)
  caller.later = math.min(later, LONGEST_MICROS - caller.reach)
end

-- introduce reads what every call but inspect begins with.
local function introduce()
  limit()
  reach()
  caller.epoch = count(4, 'epoch', 0, MOST)
  caller.seen = count(5, 'seenMicros', 0, MOST)
  caller.clock = number(6, 'clockMicros', 0)
  caller.member = ARGV[base + 7] or ''
  if not ARGV[base + 7] or #caller.member > 64 then
    bad('BADARG', 'member', 'at most 64 bytes', ARGV[base + 7])
  end
  caller.serial = count(8, 'serial', 0, MOST)
end

local function due(e)
  return s.anchorMicros + (e - s.anchor) * s.intervalMicros
end

-- unused notes permits that nobody used, for those who spent some without the line.
local function unused(permits)
  s.idle = math.min(s.idle + math.max(0, permits), MOST)
  moved = true
end

-- shift moves the line later, but never beyond the longest. Final tickets keep
-- their moment, so none before them may be used after them.
local function shift(micros)
  micros = math.min(micros, now + LONGEST_MICROS - due(s.tail))
  if micros > 0 then s.anchorMicros = s.anchorMicros + micros end
  s.floor = math.max(s.floor, s.final)
  moved = true
end

-- create makes a new state, in which permit 0 is due when the last ticket was
-- that the caller knows, or has to expect, to be final: the line goes on after data
-- was lost, or it begins with a full bucket.
local function create()
  fresh, moved = true, true
  s = { tail = 0, anchor = 0, anchorMicros = now + math.max(caller.reach + caller.later, -burst * interval),
    intervalMicros = interval, burst = burst, final = 0, floor = 0, free = 0,
    seenMicros = now, epoch = now,
    live = caller.member ~= '' and 1 or 0, countedMicros = now, idle = 0, resumeMicros = 0,
    pauseMicros = 0, pausedMicros = 0, gen = 0, setIntervalMicros = 0, setBurst = 0, setUntilMicros = 0,
    settledMicros = 0 }
  unused(math.floor(-caller.reach / interval - burst))
end

local absent = {} -- fields that the state does not have, and what they would be

-- read takes over what HMGET returned, from the fourth value on.
local function read(values)
  for i = 1, #FIELDS do
    local name, text = FIELDS[i], values[i + 3]
    if not text then text, absent[name] = RARE[name], RARE[name] end
    local x = tonumber(text or '')
    s[name] = x
    if not x or x < 0 or x > MOST or x % 1 ~= 0 then -- most are whole numbers
      if name == 'anchorMicros' then -- before 1970, when the bucket takes that long to fill
        if not finite(x) or math.abs(x) > MOST then bad('BADSTATE', name, 'a number', text) end
      elseif name == 'setIntervalMicros' then
        if not finite(x) or x < 1 then bad('BADSTATE', name, '0, or a number of at least 1', text) end
      elseif name == 'intervalMicros' then
        if not finite(x) or x < 1 then bad('BADSTATE', name, 'a number of at least 1', text) end
      else
        bad('BADSTATE', name, 'a whole number', text)
      end
    end
  end
  if s.setIntervalMicros ~= 0 and s.setBurst == 0 then bad('BADSTATE', 'setBurst', 'a whole number of at least 1', '0') end
  if s.intervalMicros == 0 then bad('BADSTATE', 'intervalMicros', 'a number of at least 1', values[6]) end
  epochRead = s.epoch
end

-- recall reads what the state knows of the caller, and of its process. A copy of a call that is older
-- than the last one of the same caller comes too late: nobody reads its reply.
local function recall(text, process)
  witness = tonumber(string.match(text or process or '', '^%d+') or '')
  if not text then return end
  local seen, serial, gave = string.match(text, '^(%d+) (%d+) (.*)$')
  own = { seen = tonumber(seen or ''), serial = tonumber(serial or ''), trace = gave }
  if not whole(own.seen, 0) or not whole(own.serial, 0) then
    return bad('BADSTATE', 'm:' .. caller.member, 'micros, a serial and a trace', text)
  end
  if caller.serial > 0 and caller.serial < own.serial then
    problem = problem or redis.error_reply('STALE serial must be at least ' ..
      digits(own.serial) .. ', got "' .. digits(caller.serial) .. '"')
  end
  replay = caller.serial > 0 and caller.serial == own.serial
  if replay or caller.serial == 0 then trace = gave end
end

-- Redis's clock went back (NTP, failover): the line goes back with it. The time
-- between the last call and the step is unknown, so the line is that much late,
-- while final tickets keep their moment.
local function step_back(micros)
  s.anchorMicros = s.anchorMicros - micros
  s.floor = math.max(s.floor, s.final)
  s.resumeMicros = math.max(0, s.resumeMicros - micros)
  s.pauseMicros = math.max(0, s.pauseMicros - micros)
  if s.setUntilMicros > 0 then s.setUntilMicros = math.max(1, s.setUntilMicros - micros) end
  s.countedMicros = now -- the others show up on the new clock before they are counted
  moved = true
end

-- Redis's clock went ahead by what neither the fleet nor the caller saw passing.
-- (A slow request or a suspended caller saw less than others did; and where
-- nobody called meanwhile, this is what winding the line back would do.)
local function step_ahead(micros)
  shift(micros)
  if s.resumeMicros > 0 then s.resumeMicros = s.resumeMicros + micros end
  if s.pauseMicros > 0 then s.pauseMicros = s.pauseMicros + micros end
  if s.setUntilMicros > 0 then s.setUntilMicros = s.setUntilMicros + micros end
  s.countedMicros = now
  quiet = quiet - micros
end

-- missed tells that the state does not hold the last call of the caller, though
-- it is the state that the caller saw: it was rolled back. What the state knows
-- of the caller itself, or of its process where the caller is new, tells that also
-- when others called before it. Who has no field in it was not seen for long, or is
-- not known any more; one that is ahead of the state, or of the caller's clock, was
-- written before the clock went back, and tells nothing.
local function missed(seen)
  if replay or now < caller.seen then return false end -- it holds this very call
  local latest = caller.clock > 0 and math.min(seen, caller.clock + STEP_MICROS) or seen
  if witness and witness <= latest then return caller.seen > witness end
  if witness and not own then return caller.seen > seen end -- others of its process called since
  return caller.seen > seen or caller.member ~= '' and now - caller.seen < ALIVE_MICROS
end

-- restore lets the line go on where the caller saw it, when data was lost. After
-- a rollback everybody else is to bring what they saw, too; and what is free or
-- waits before the final mark may have been used.
local function restore(seen)
  if caller.epoch == 0 then return end
  local back = caller.epoch == s.epoch
  if back then
    if not missed(seen) then return end
    s.epoch = now == s.epoch and now + 1 or now
  end
  local late = math.ceil(now + caller.reach - due(s.final))
  if back or late > 0 then shift(late) end
end

local function costof(member)
  local cost = string.match(member, '^(%d+):')
  return cost and tonumber(cost)
end

-- foremost is the last permit before the first number beyond the final mark that
-- waits or is free, so that it may still be used; else the tail. Those between the
-- mark and it were dropped.
local function foremost()
  local before, mark = s.tail, math.max(s.floor, s.final)
  if before == mark then return before end
  for _, list in ipairs({ WAITING, FREE }) do
    local head = redis.call('ZRANGEBYSCORE', list, '(' .. digits(mark), '+inf', 'WITHSCORES', 'LIMIT', 0, SCAN)
    for i = 1, #head, 2 do
      local cost = costof(head[i])
      local start = cost and tonumber(head[i + 1]) - cost
      if start and start >= mark then before = math.min(before, start) end
    end
  end
  return before
end

-- Nothing is due before everybody comes back from an outage.
local function hold()
  local early = math.ceil(s.resumeMicros - due(foremost() + 1))
  if early > 0 then shift(early) end
end

-- Another rate since a moment: calls that wait are re-timed, in order. What is still to
-- go of a pause is not in permits.
local function retime(since)
  local from = math.max(since, s.pauseMicros)
  local left = (due(s.tail) - from) / s.intervalMicros
  s.anchor, s.anchorMicros = s.tail, math.min(from + math.ceil(left * interval), now + LONGEST_MICROS)
  s.intervalMicros = interval
  if s.resumeMicros > now then hold() end
  moved = true
end

-- available is the last permit that is due by now.
local function available()
  return s.anchor + math.floor((now - s.anchorMicros) / s.intervalMicros)
end

-- govern makes the limit that was set for all, if one is in force, that of this call.
local function govern()
  if s.setUntilMicros > 0 and s.setUntilMicros <= now then
    s.setIntervalMicros, s.setUntilMicros = 0, 0
    return true
  end
  interval, burst = ours[1], ours[2]
  if s.setIntervalMicros > 0 then interval, burst = s.setIntervalMicros, s.setBurst end
end

-- The bucket overflowed while nobody came: what did not fit is gone. Where
-- numbers may wait beyond the final ones, the line becomes late instead, so that
-- winding it back leaves no gap behind them. The new anchor is not rounded:
-- rounded up, the last permit of a full bucket would always be a microsecond
-- ahead; rounded down, it would overflow again.
local function overflow()
  local lowest = now - burst * interval
  local last = due(s.tail)
  if last >= lowest then return end
  local gone = math.ceil((lowest - last) / interval)
  unused(gone)
  if s.tail == s.final then
    s.tail = s.tail + gone
    s.final = s.tail -- nothing is left to be used before it
    skipped, top = gone, s.tail
  else
    s.floor = math.max(s.floor, s.final)
  end
  s.anchor, s.anchorMicros = s.tail, lowest
end

-- relimit lets the line go on with the limit of now, which was set then, or which is the
-- callers' again since then. Final tickets move along. What overflowed of a smaller bucket does not
-- come back with a larger one.
local function relimit(since)
  interval, burst = s.intervalMicros, s.burst
  overflow()
  govern()
  if interval == s.intervalMicros and burst == s.burst then return end
  s.floor = math.max(s.floor, available() - s.burst)
  if interval ~= s.intervalMicros then retime(since) end
  s.burst, s.gen, moved, turned = burst, s.gen + 1, true, true
end

-- clock reads the time, once for all lines of a call.
local function clock()
  if now then return end
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- load reads the clock and the state, and brings the state up to now.
local function load()
  clock()
  local values = redis.call('HMGET', STATE, 'm:' .. caller.member,
    'm:' .. string.match(caller.member, '^[^/]*'), 'plain', unpack(FIELDS))
  if not values[4] then
    if redis.call('EXISTS', STATE) == 1 then
      return bad('BADSTATE', 'tail', 'a whole number')
    end
    return create()
  end
  read(values)
  recall(values[1], values[2])
  plainRead = values[3]
  if problem then return end

  local seen = s.seenMicros
  quiet = now - seen
  if quiet < 0 then step_back(-quiet) end
  s.seenMicros = now
  local ahead = caller.clock > 0 and math.min(quiet, math.floor(now - caller.clock)) or 0
  if ahead > STEP_MICROS then step_ahead(ahead) end
  restore(seen)
  local ended = s.setUntilMicros
  if govern() then relimit(ended) end
  if interval ~= s.intervalMicros then retime(now) end
  if burst ~= s.burst then
    s.burst = burst
    moved = true
  end
  overflow()
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

-- guard makes sure that a Redis that is full refuses the script as a whole: it
-- looks at the first write only, and not if that one removes something.
local guarded = false
local function guard()
  if not guarded then redis.call('HSET', STATE, 'tail', s.tail) end
  guarded = true
end

-- begin prepares the lists of a new state: lists that outlived their state are
-- emptied, as their numbers mean nothing in the new one.
local function begin()
  if moved then uses(WAITING, FREE, CLAIMED) end
  if fresh or s.free > 0 then guard() end
  if fresh then redis.call('DEL', WAITING, FREE, CLAIMED) end
end

-- A ticket fits while its permits are still in the bucket.
local function fits(e, cost)
  return e - cost >= s.floor and now <= due(e - cost) + math.max(burst, cost) * interval
end

-- A ticket is dead when its permits are gone and the line cannot be wound back
-- to it: a later ticket was let through, or the line was wound past it.
local function dead(e, cost)
  if e - cost < s.floor then return true end
  return e <= s.final and now > due(e - cost) + math.max(burst, cost) * interval
end

-- List entries read "<cost>:<id>", in the free list "<cost>:<number>".
local function entry(cost, id)
  return digits(cost) .. ':' .. id
end

local function score(list, member)
  return tonumber(redis.call('ZSCORE', list, member) or nil)
end

-- moved_to is how the claimed list names who lost its number: the number that it has now,
-- if somebody else claimed the one that it had, or less the number that it had, if that
-- passed unused.
local function moved_to(member)
  return '!' .. member
end

-- lose notes that a number passed that somebody had. The last of them are known.
local function lose(member, e)
  uses(CLAIMED)
  redis.call('ZADD', CLAIMED, -e, moved_to(member))
  redis.call('ZREMRANGEBYSCORE', CLAIMED, LOSSES - s.final, 0)
end

-- displaced reports whether an id has another number now than it had. One without a mark of
-- it, or whose number passed too long ago, is taken for one that had none.
local function displaced(member, e)
  local mark = score(CLAIMED, moved_to(member))
  if mark and mark < math.min(0, LOSSES - s.final) then
    mark = e
    redis.call('ZADD', CLAIMED, e, moved_to(member))
  end
  return mark == e
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
        if list == WAITING then lose(member, e) end
      elseif cost and suits(cost, e) then
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

-- trimmed is how many permits of a free block are left: of one that is larger than the
-- bucket the first overflow, and the rest stays.
local function trimmed(e, size)
  if size <= burst then return size end
  local start = s.anchor + math.ceil((now - burst * interval - s.anchorMicros) / interval)
  return math.min(size, e - start)
end

-- offer finds the number that a new ticket would get: the earliest free one
-- that is large enough, else the next at the tail. The second result is what
-- `accept` needs to take it. A late free number is gone: nobody waits under it.
local function offer(cost)
  if s.free > 0 then
    uses(WAITING, FREE, CLAIMED)
    local e, member, size = first(FREE,
      function(e, size) return not fits(e, size) end,
      function(size, e) return trimmed(e, size) >= cost end)
    counted()
    if e then
      size = trimmed(e, size)
      return e - size + cost, { e = e, member = member, size = size }
    end
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

-- rewind moves the whole line back. No number up to `below` can be used after it.
local function rewind(micros, below)
  if s.tail == top then -- what load skipped is there again
    s.tail, s.idle, top = s.tail - skipped, math.max(0, s.idle - skipped), nil
    s.final = s.tail
  end
  s.anchorMicros = s.anchorMicros + micros
  s.floor = below
  unused(math.floor(micros / interval))
end

-- wind makes a late ticket due now by moving the whole line back. It is only
-- done when nothing later was let through, so the bucket is full: everyone
-- behind keeps order and spacing, and the fleet comes back at the paced rate
-- instead of all at once.
local function wind(e, cost)
  rewind(math.ceil(now - due(e)), e - cost)
end

-- mark is the highest number that became final: load moved the final mark over
-- what overflowed.
local function mark()
  return s.final == top and s.final - skipped or s.final
end

-- remember keeps a final ticket for an id that asks again. Those that can not be
-- asked for any more are forgotten.
local function remember(member, e)
  local gone = math.floor(s.tail - (due(s.tail) - now) / interval - burst)
  redis.call('ZREMRANGEBYSCORE', CLAIMED, '(0', '(' .. digits(math.min(gone, s.final)))
  redis.call('ZADD', CLAIMED, e, member)
end

-- again finds the final ticket of an id that asks once more, as the reply was
-- lost. Where its turn has just passed (by no more than `bound`) and nothing later
-- was let through, the line is wound back to it: asking twice costs no turn.
local function again(member, bound)
  local e = score(CLAIMED, member)
  if not e then return end
  local cost = costof(member)
  if not fits(e, cost) then
    if e ~= mark() or e - cost < s.floor or now - due(e) > bound then return end
    wind(e, cost)
  end
  return e
end

-- wait is rounded up: a caller that sleeps it is never early.
local function wait(e)
  return math.max(0, math.ceil(due(e) - now))
end

-- census counts the processes that called within the last minute, and forgets
-- the others. A process is what stands before the slash in the names of its members.
local function census()
  guard()
  local mine = 'm:' .. caller.member
  local all = redis.call('HGETALL', STATE)
  local processes = {}
  s.live, s.countedMicros, moved = 0, now, true
  local function add(field)
    local process = string.match(field, '^m:([^/]*)')
    if not processes[process] then s.live = s.live + 1 end
    processes[process] = true
  end
  if caller.member ~= '' then add(mine) end
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'm:' and all[i] ~= mine then
      local seen = tonumber(string.match(all[i + 1], '^%d+') or '')
      if seen and math.abs(now - seen) <= ALIVE_MICROS then
        add(all[i])
      else
        redis.call('HDEL', STATE, all[i])
      end
    end
  end
end

-- plain tells whether a new ticket simply comes after the last one: then quick.lua
-- need not know more, as long as the limit is the same.
local function plain()
  return s.tail == s.final and s.free == 0 and s.resumeMicros <= now and s.pauseMicros <= now
    and s.setIntervalMicros == 0 and s.settledMicros == 0
end

-- signature is the caller's field of the state, and its value.
local function signature()
  if caller.member == '' then return end
  local serial = math.max(caller.serial, own and own.serial or 0)
  return 'm:' .. caller.member, digits(now) .. ' ' .. digits(serial) .. ' ' .. trace
end

-- header fills in what the replies of take, claim, charge, pause, resume and set begin with.
local function header(reply)
  reply[1], reply[2], reply[3] = s.epoch, now, math.ceil(due(s.final) - now)
  reply[4], reply[5], reply[6] = s.live, s.idle, math.max(0, s.resumeMicros - now)
  reply[7], reply[8] = plain() and 1 or 0, math.max(0, s.pauseMicros - now)
  reply[9], reply[10] = s.gen, s.final
  reply[11], reply[12], reply[13] = math.floor(interval), math.floor(interval % 1 * 1000000000), burst
  return reply
end

-- announce tells those who listen that final tickets have other turns than they were
-- told: that is what the number gen stands for. They hear what a reply begins with, and
-- the key of the state. A user without the right to publish may still move the line.
local function announce()
  local news = header({})
  for i = 1, #news do news[i] = digits(news[i]) end
  local channel = redis.call('HMGET', STATE, 'channel')[1]
  local base = string.match(STATE, '^([^{]*{[^}]*}[^:]*:)line') -- for calls that tell no channel, as settle
  redis.pcall('PUBLISH', channel or base and base .. 'news' or '', table.concat(news, ' ') .. ' ' .. STATE)
end

-- ---------------------------------------------------------------------------
-- Costs that are settled later. What a call did not use stays in the bucket of a strict
-- provider, as far as there was room in it ever since: where the bucket held at most h of
-- its b permits in that time, min(permits, b - h) are still there. So a line of which a call
-- was settled keeps its crests: how many permits were stored just before calls, as
-- "<micros>:<permits> ..." by time, without those that a later one exceeds.

local CRESTS = 24                -- of which two become one where there are more
local MEMORABLE_MICROS = 1800000000 -- how long a call may take to be settled

-- stored is how many permits the bucket holds at a moment, of those behind `before` all that
-- are due by then, and of those up to it what is free, or waited for by somebody who is late.
-- Who waits and is not late will have used theirs; a crest of their own says so if not.
local function stored(at, before)
  local permits = math.max(0, (at - due(before)) / s.intervalMicros)
  if s.free == 0 and redis.call('EXISTS', WAITING) == 0 then return math.min(burst, permits) end
  for _, list in ipairs({ WAITING, FREE }) do
    local head = redis.call('ZRANGEBYSCORE', list, '-inf', digits(before), 'WITHSCORES', 'LIMIT', 0, SCAN)
    for i = 1, #head, 2 do
      local cost, e = costof(head[i]), tonumber(head[i + 1])
      local awake = list == WAITING and due(e) > now and due(e) <= at
      if cost and not awake and not dead(e, cost) then
        if #head == 2 * SCAN then return math.max(0, math.min(burst, (at - due(e - cost)) / s.intervalMicros)) end
        permits = permits + math.max(0, math.min(cost, (at - due(e - cost)) / s.intervalMicros))
      end
    end
  end
  return math.min(burst, permits)
end

local function crests()
  local list = {}
  for at, permits in string.gmatch(redis.call('HMGET', STATE, 'crests')[1] or '', '(%d+):(%d+)') do
    list[#list + 1] = { at = tonumber(at), permits = tonumber(permits) }
  end
  return list
end

local function crest(at, permits)
  local list, words = crests(), {}
  at, permits = math.ceil(at), math.ceil(permits)
  if #list > 0 then at = math.max(at, list[#list].at) end
  while #list > 0 and list[#list].permits <= permits do list[#list] = nil end
  list[#list + 1] = { at = at, permits = permits }
  while #list > 1 and list[1].at < now - MEMORABLE_MICROS do table.remove(list, 1) end
  if #list > CRESTS then -- the higher one counts for the time of both
    list[1].at = list[2].at
    table.remove(list, 2)
  end
  for i, c in ipairs(list) do words[i] = digits(c.at) .. ':' .. digits(c.permits) end
  redis.call('HSET', STATE, 'crests', table.concat(words, ' '))
end

-- finalize notes that a number has a turn at a moment that is fixed.
local function finalize(e, cost, at)
  if s.settledMicros > 0 then crest(at, stored(at, e - cost)) end
  s.final = math.max(s.final, e)
end

-- told gathers what the line moved for calls that were settled: those who have turns hear
-- of it when it is worth it.
local UNTOLD_MICROS = 100000
local function tell(micros)
  local untold = (tonumber(redis.call('HMGET', STATE, 'untoldMicros')[1] or '') or 0) + micros
  if math.abs(untold) >= UNTOLD_MICROS then
    s.gen, turned, untold = s.gen + 1, true, 0
  end
  redis.call('HSET', STATE, 'untoldMicros', untold)
end

-- watch begins to keep crests: of a call that had its turn before nobody knows.
local function watch()
  if s.settledMicros == 0 then s.settledMicros, moved = now, true end
end

-- refund lets the line come earlier by what a call that had its turn at a moment did not
-- use. What the bucket held before that call does not matter, nor what it held at the same
-- moment after others: that was less by the cost of this one at least.
local function refund(permits, at)
  watch()
  if at < s.settledMicros or at < now - MEMORABLE_MICROS then return end
  local highest = stored(now, s.final)
  for _, c in ipairs(crests()) do
    if c.at > at then highest = math.max(highest, c.permits) end
  end
  permits = math.floor(math.min(permits, burst - highest))
  if permits <= 0 then return end
  s.anchorMicros, moved = s.anchorMicros - permits * s.intervalMicros, true
  tell(-permits * s.intervalMicros)
end

-- owe lets the line come later by what a call used more.
local function owe(permits)
  watch()
  shift(permits * s.intervalMicros)
  tell(permits * s.intervalMicros)
end

-- save writes the state. It lives past the last number given out and past the
-- moment at which the bucket is full again, so that an expired state and a full
-- bucket mean the same; and for as long as the processes that use it count.
local function save()
  local unknown = caller.member ~= '' and not witness -- nor its process
  if not fresh and (unknown or now - s.countedMicros >= COUNT_MICROS or now < s.countedMicros) then census() end
  local last = due(s.tail)
  local nextFree = digits(math.ceil(last / 1000))
  local is = plain() and table.concat({ digits(s.epoch), digits(s.live), ARGV[base + 1], ARGV[base + 2] }, ' ') or 'no'
  if moved or is ~= plainRead then
    local args = { 'nextFreeTicketMillis', nextFree, 'plain', is }
    local n = 4
    for i = 1, #FIELDS do
      local name = FIELDS[i]
      local value = exact(s[name])
      if value ~= (fresh and RARE or absent)[name] then
        args[n + 1], args[n + 2] = name, value
        n = n + 2
      end
    end
    args[n + 1], args[n + 2] = signature()
    redis.call('HSET', STATE, unpack(args))
  else
    redis.call('HSET', STATE, 'tail', digits(s.tail), 'final', digits(s.final),
      'seenMicros', digits(s.seenMicros), 'nextFreeTicketMillis', nextFree, signature())
  end
  -- Counted in whole milliseconds of the clock, as Redis does: the keys of one
  -- line then expire together, whichever call touched which of them.
  local fill = math.ceil(burst * interval / 1000)
  local ttl = math.ceil((last + burst * interval) / 1000) - math.floor(now / 1000) + 1000
  if s.live > 0 then
    ttl = math.max(ttl, LINGER_MILLIS)
    fill = fill + LINGER_MILLIS
  end
  if s.setUntilMicros > 0 then
    ttl = math.max(ttl, math.ceil(s.setUntilMicros / 1000) - math.floor(now / 1000) + 1000)
  elseif s.setIntervalMicros > 0 then
    ttl = math.max(ttl, LONGEST_MICROS / 1000)
  end
  ttl = math.min(ttl, MOST) -- Redis takes no more: a state may hold anything
  redis.call('PEXPIRE', STATE, ttl)
  -- Calls that touch no list let the state live longer, so lists are given more: by
  -- then nothing in them can be used any more, not even if the line steps back.
  for _, list in ipairs({ WAITING, FREE, CLAIMED }) do
    if moved or used[list] then redis.call('PEXPIRE', list, ttl + fill) end
  end
  if turned then announce() end
end
