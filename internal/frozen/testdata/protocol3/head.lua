-- head.lua: what every script of a limit begins with: the arguments that all scripts have, and the time.
-- Every script takes
--
-- KEYS  for each limit: state, places, log, processes, booked, flows
-- ARGV  NOW        micros; '': the script takes Redis's TIME
--       WAY        micros that a reply takes from Redis to the caller
--       HORIZON    how far ahead a turn may be granted, in micros
--       NEAR       the same, if permits of another limit would be lost meanwhile
--       GRACE      for how long permits wait for the head of a queue, in micros
--       RUN        the first 12 digits of the server's run ID; '': not known. Behind a '?': another server
--                  may have taken over, so the script reads it (except in a cluster). Without NOW, it
--                  also reads it if a limit has no state, or was last asked for on another server
--       PROCESS    the caller's name, without spaces and colons
--       SERIAL     the number of this script call
--       CHANNEL    for messages; '': none
--       then for each limit:
--         KIND A B   p intervalMicros burst | q permits marginMicros | r permits windowMicros |
--                    s permits 1 | w intervalMicros periodMicros
--         RANK       the rank of this limit: the highest is in force. With a + before it, the limit is
--                    the plan of its key, and the rank its version and 2^40
--         KNOWN      the text of the last reply, without its ~; '': the caller never asked
--         VERSION    the version in the last reply; 0: none
--         REACH      the reach in the last reply, less the micros that have passed since: they are
--                    taken off the first number of p and w, and the second one of r and s
--         BACK       "<process> <serial>" of an ask of which no turn was used: all its turns go
--                    back, unless another call has spent permits since. '': none
--         EDGES      the edges of a quota's windows, rising, from the current window or the one
--                    before: at least two are later than now. '': no quota
--         CLOCK      Redis's time now, in micros: the time in the caller's last or first reply,
--                    plus what has passed since on its monotonic clock. 0: not known
--       then the arguments of the script itself.
-- Every reply begins with the time and, per limit: version, reach, text, problem. The text is '' if the
-- caller knows it, and begins with ~ if not all calls may take the common path. If the caller has a plan,
-- and another one is the newest, the text ends with @, its rank, and its A and B. All four are '' if no
-- item needed the limit. A limit with a problem does not change, and does not affect the other limits.

-- The protocol is what processes of different versions of fleetpace must understand alike: the keys, what is
-- in them, and the messages. Processes of a protocol and of the next one share limits. lua/doc.go says when the
-- number grows. A state has the highest protocol that has written it.
local PROTOCOL = 3

local NOW, WAY, HORIZON, NEAR, GRACE, RUN, PROCESS, SERIAL, CHANNEL = 1, 2, 3, 4, 5, 6, 7, 8, 9
local KIND, A, B, RANK, KNOWN, VERSION, REACH, BACK, EDGES, CLOCK = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local STATE, PLACES, LOG, PROCESSES, BOOKED, FLOWS = 1, 2, 3, 4, 5, 6
local HEAD, WIDTH, KEYED = CHANNEL, CLOCK, FLOWS -- arguments of all calls, and per limit; keys per limit

local call, pcall = redis.call, redis.pcall
local max, min, floor, ceil, huge = math.max, math.min, math.floor, math.ceil, math.huge
local format, match, gmatch, rep, sub = string.format, string.match, string.gmatch, string.rep, string.sub

local COUNT = #KEYS / KEYED -- how many limits
local OWN = HEAD + WIDTH * COUNT -- arguments before those of the script itself
local STEP, RENEW = 1000000, 10000000 -- micros: the least step of a clock that counts; how often the TTL is renewed
local AHEAD = 1000000 -- micros: every granted turn is due within that time
local LONGEST = 1e15 -- micros

local function finite(x) return x and x - x == 0 end

-- bad returns the error for the n arguments from i on.
local function bad(what, i, n)
  local got = {}
  for k = 1, n do got[k] = ARGV[i + k - 1] or 'nothing' end
  return redis.error_reply('BADARG ' .. what .. ', got ' .. table.concat(got, ', '))
end

local now = tonumber(ARGV[NOW])
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local met, moved = ARGV[NOW] ~= '', false -- the script has read the run ID; it is not the one that the caller knows

-- meet reads the run ID of the server, unless this is a cluster.
local function meet(known)
  local info = pcall('INFO', 'server')
  if type(info) ~= 'string' then info = '' end
  ARGV[RUN] = match(info, '_mode:cluster') and known or sub(match(info, 'run_id:(%x+)') or '', 1, 12)
  met, moved = true, known ~= '' and ARGV[RUN] ~= '' and ARGV[RUN] ~= known
end

if sub(ARGV[RUN], 1, 1) == '?' then meet(sub(ARGV[RUN], 2)) end
local way, horizon = tonumber(ARGV[WAY]), tonumber(ARGV[HORIZON])
if not (way and horizon and way >= 0 and horizon >= 0 and way + horizon <= AHEAD) then
  return bad('way, horizon: want micros, a second together at most', WAY, 2)
end
local at = now + way -- when the reply reaches the caller

-- The answers by item. An item that is answered by a run of turns has one number: the time until the last
-- turn. The tables are made as large as most replies need, as they grow slowly.
local reply, answers = { now, nil, nil, nil, nil, nil, nil }, { nil }

-- flat adds the answers to a reply.
local function flat(reply, answers)
  local n = 4 * COUNT + 1
  for k = 2, n do reply[k] = reply[k] or '' end
  for _, answer in ipairs(answers) do
    if type(answer) == 'number' then
      reply[n + 1], reply[n + 2], n = 1, answer, n + 2
    else
      for k = 1, #answer do reply[n + k] = answer[k] end
      n = n + #answer
    end
  end
  return reply
end
