-- head.lua: what every script begins with: the time, and the arguments that all have. Every
-- script takes
--
-- KEYS  for each limit: state, places, log, processes, booked, flows
-- ARGV  1 nowMicros    '': Redis's TIME
--       2 wayMicros    from Redis to the caller
--       3 horizonMicros  how far ahead a turn may be given
--       4 nearMicros   the same where permits of another limit would be lost meanwhile
--       5 graceMicros  for how long permits wait for the head
--       6 run          of the server; '': not known
--       7 process      the caller's name, without spaces and colons
--       8 serial       of this call
--       9 channel      for news; '': none
--       then ten per limit:
--         kind a b     p intervalMicros burst | q permits marginMicros | r permits
--                      windowMicros | s permits 1 | w intervalMicros periodMicros
--         rank         of this limit: the highest is in force
--         known        the text of the last reply, without its ~; '': never asked
--         version      of the last reply; 0
--         reach        of the last reply, its micros less what has passed since: the first number
--                      of p and w, the second of r and s; of q nothing
--         back         "<process> <serial>" of an ask of which no turn was used: all go back if
--                      nobody has spent since. ''
--         edges        of a quota's windows, from the one of now or before, rising: at
--                      least two later than now. ''
--         clockMicros  Redis's time now: that of the last reply, or of the caller's first,
--                      and what has passed since on its monotonic clock. 0: not known
--       then what the script itself wants.
-- Every reply begins with nowMicros and, per limit: version, reach, text ('' as known; ~
-- before it: not all calls may take the common path), problem; four '' of a limit that no item
-- needed. What is wrong with one limit changes nothing there, and does not hinder the others.

local call, pcall = redis.call, redis.pcall
local max, min, floor, ceil, huge = math.max, math.min, math.floor, math.ceil, math.huge
local format, match, gmatch = string.format, string.match, string.gmatch

local HEAD, WIDTH, KEYED = 9, 10, 6 -- arguments of all calls, per limit; keys per limit
local OWN = HEAD + WIDTH * #KEYS / KEYED -- arguments before those of the script itself
local STEP, RENEW = 1000000, 10000000 -- micros: a clock that stepped; how often the TTL is renewed
local AHEAD = 1000000 -- micros: no turn is out that is due later than that

local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local way, horizon = tonumber(ARGV[2]), tonumber(ARGV[3])
if not (way and horizon and way >= 0 and horizon >= 0 and way + horizon <= AHEAD) then
  return redis.error_reply('BADARG way, horizon: want micros, a second together at most, got ' .. (ARGV[2] or '') .. ', ' .. (ARGV[3] or ''))
end
local at = now + way -- when the answer is there

local function finite(x) return x and x - x == 0 end

-- stepped is by how much Redis's clock has stepped since a limit was used last: back, or
-- ahead by more than the time that the caller has measured since it heard of the limit.
local function stepped(seen, clock)
  if seen > now then return now - seen end
  local ahead = min(now - seen, now - clock)
  return clock > 0 and ahead > STEP and ahead or 0
end

local replies, answers = {}, {}

-- flat is the reply: the time, then for each limit four values, then the answers.
local function flat()
  local reply = { now }
  for j = 1, #KEYS / KEYED do
    for k = 1, 4 do reply[#reply + 1] = replies[j] and replies[j][k] or '' end
  end
  for _, answer in ipairs(answers) do
    for k = 1, #answer do reply[#reply + 1] = answer[k] end
  end
  return reply
end
