-- quick: the common take, for several limits of one limiter in one call. A limit
-- that is plain (nothing waits, nothing is free, nothing is new) gives the caller
-- the next permits in a row. Of one that is not, nothing is changed: take it.
--
-- Stands alone: what line.lua brings would cost more than the call.
--
-- KEYS  the states (hashes), one per limit; all in one slot
-- ARGV  1 intervalMicros  2 burst: as for take, of all limits
--       3 clockMicros     Redis's time now, by the caller's own clock
--       4 lastingMicros   extra permits can be used for at least so long; 0: there are
--                         none, and each limit has six arguments
--       then seven per limit:
--       line              "<epoch> <live>", as the last reply said of the line: so each
--                         process hears when there are more or fewer of them
--       member            names the caller, as for take; not empty
--       known             how its field in the state begins, if that is of its last
--                         call: "<seenMicros> <serial> "; not empty: a new member
--                         takes first
--       serial            of this call, as for take, in digits only; not 0
--       permits           for the calls that the caller makes now, of one or many
--       slackMicros       give them only if the permit before them is due within it
--                         (waits are up to the caller: nobody refuses single calls)
--       extra             permits that the caller keeps for later; given only if all
--                         of them are due now, and last
-- Reply seenMicros (Redis's time), then four per limit:
--       before            the permits are (before, before + given]; -1: this limit is
--                         not plain, the permits are too far away, or an argument or
--                         field is wrong (a take says which)
--       dueMicros         of permit `before` minus now, rounded up; negative when past
--       idle              as of take
--       given             permits: without or with the extra ones
-- What is given is final, as if taken in one row with keep 0. A call whose reply was
-- lost is repeated as a take under the same serial, of the same permits.
-- A caller must have had the reply of a take or claim of the limit in the last
-- thirty seconds: that is what counts processes and lets the state live. (A quick may then
-- be ten more on its way.)
-- Errors: BADARG of the first four arguments; then nothing was changed.

local format, find, sub = string.format, string.find, string.sub
local ceil, floor, max, tonumber = math.ceil, math.floor, math.max, tonumber
local MOST, LONGEST_MICROS = 9007199254740991, 100 * 365.25 * 86400 * 1000000 -- as in line.lua
local interval, burst, clock, lasting = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local function bad(name, want, value)
  return redis.error_reply('BADARG ' .. name .. ' must be ' .. want .. ', got "' .. tostring(value or 'nothing') .. '"')
end
if not (interval and interval >= 1 and interval < math.huge) then
  return bad('intervalMicros', 'a number of at least 1', ARGV[1])
elseif not (burst and burst >= 1 and burst <= 1000000000 and burst % 1 == 0) then
  return bad('burst', 'a whole number from 1 to 1000000000', ARGV[2])
elseif burst * interval > LONGEST_MICROS then
  return bad('burst', 'at most 100 years of permits', ARGV[2])
elseif not (clock and clock >= 0 and clock < math.huge) then
  return bad('clockMicros', 'a number of at least 0', ARGV[3])
elseif not (lasting and lasting >= 0 and lasting < math.huge) then
  return bad('lastingMicros', 'a number of at least 0', ARGV[4])
end
local width = lasting > 0 and 7 or 6
if #ARGV ~= 4 + #KEYS * width then
  return bad('limits', 'groups of ' .. width .. ', one per key', #ARGV - 4)
end

local limits = ' ' .. ARGV[1] .. ' ' .. ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local fill = burst * interval
local whole = format('%d', MOST) == '9007199254740991' and '%d' or '%.0f' -- as in line.lua
local text = format(whole, now)

-- Most of the time goes into calls of Redis, and into numbers that become texts or
-- come from them: so each becomes one once. (Redis writes numbers slowly, too.)
local reply, n = { now }, 1
for k = 1, #KEYS do
  local state, a = KEYS[k], 5 + (k - 1) * width
  local before, due, unused, given = -1, 0, 0, 0
  repeat -- once: whoever breaks off has changed nothing
    local member, known, serial = 'm:' .. ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
    local v = redis.pcall('HMGET', state, 'plain', member, 'tail', 'anchor', 'anchorMicros', 'seenMicros', 'idle')
    if v[1] ~= ARGV[a] .. limits or known == '' or sub(v[2] or '', 1, #known) ~= known then break end
    local tail, anchor, anchorMicros, seen, idle = tonumber(v[3]), tonumber(v[4]), tonumber(v[5]), tonumber(v[6]), tonumber(v[7])
    local permits, slack, extra = tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]), 0
    if width == 7 then extra = tonumber(ARGV[a + 6]) end
    if not (tail and anchor and anchorMicros and seen and idle and permits and slack and extra) then break end
    -- Of what is not whole, or not finite, the remainder is not 0.
    if tail % 1 + anchor % 1 + seen % 1 + idle % 1 + permits % 1 + extra % 1 ~= 0 or
      tail < 0 or anchor < 0 or anchor > MOST or seen < 0 or idle < 0 or permits < 1 or extra < 0 or
      not find(serial, '^[1-9]%d*$') or #serial > 15 and tonumber(serial) > MOST or
      #member < 3 or #member > 66 then break end
    if now < seen or now - seen > 1000000 and now - clock > 1000000 then break end -- its clock was stepped

    local last, lowest, gone = anchorMicros + (tail - anchor) * interval, now - fill, 0
    if extra > 0 then
      local from = lowest + lasting
      if max(last, from) + (permits + extra) * interval > now then
        extra = 0
      else
        lowest = from
      end
    end
    if last < lowest then -- what does not fit is gone, as in line.lua
      gone = ceil((lowest - last) / interval)
      tail, last = tail + gone, lowest
      anchor, anchorMicros, idle = tail, lowest, idle + gone
    end
    local after = tail + permits + extra
    local next_free = anchorMicros + (after - anchor) * interval
    if not (last - now <= slack) or next_free - now > LONGEST_MICROS or after > MOST or idle > MOST then break end

    local millis, number, start = format(whole, ceil(next_free / 1000)), format(whole, after), format(whole, tail)
    local record = text .. ' ' .. serial .. ' 1=' .. start .. ';'
    if gone > 0 then
      redis.call('HSET', state, 'nextFreeTicketMillis', millis, 'tail', number, 'final', number,
        'anchor', start, 'anchorMicros', lowest % 1 == 0 and format(whole, lowest) or lowest,
        'idle', format(whole, idle), 'seenMicros', text, member, record)
    else
      redis.call('HSET', state, 'nextFreeTicketMillis', millis, 'tail', number, 'final', number,
        'seenMicros', text, member, record)
    end
    if next_free + fill > now + 50000000 then -- else what the last take left is enough: 91 seconds
      redis.call('PEXPIRE', state, max(91000, ceil((next_free + fill) / 1000) - floor(now / 1000) + 1000))
    end
    before, due, unused, given = tail, ceil(last - now), idle, permits + extra
  until true
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = before, due, unused, given
  n = n + 4
end
return reply
