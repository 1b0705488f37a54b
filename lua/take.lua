-- take.lua: ask for new calls at paced limits where nobody waits, each of which the caller knows as
-- it is. This is the common path of ask alone, with few keys and arguments.
--
-- KEYS  for each limit: its state
-- ARGV  NOW WAY HORIZON PROCESS SERIAL: see head.lua. No turn is given if the HORIZON is below 0
--       then for each group of limits, in the order of their keys:
--         LIMITS      how many there are
--         A B         their terms
--         COUNT COST  how many calls ask at each of them, and the permits of each call, at most the burst
--         and for each limit of the group:
--           KNOWN VERSION CLOCK: see head.lua. KNOWN ends with the RUN, the kind, A and B of the caller
--           WITHIN    '': a turn may be as far ahead as the HORIZON. 0: it must be due at once. Else
--                     it must be due so many micros after the caller sent the request
-- Reply: the time, then for each limit its new version, and micros until the last turn is due. The
-- version -1 says that nothing has changed: these calls have to ask in full.

local call, pcall = redis.call, redis.pcall
local max, min, floor, ceil, format = math.max, math.min, math.floor, math.ceil, string.format
local OWN, TERMS, WIDTH = 5, 5, 4
local STEP, RENEW = 1000000, 10000000 -- see head.lua

local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local way, horizon = tonumber(ARGV[2]), tonumber(ARGV[3])
local at, this, reply = now + way, format('%d', now), { now, nil, nil }
local j, k = 0, OWN -- how many keys and arguments have been read

while j < #KEYS do
  local interval, burst, permits = ARGV[k + 2] + 0, ARGV[k + 3] + 0, ARGV[k + 4] * ARGV[k + 5]
  local last, spent = ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. permits, nil
  local group = j + ARGV[k + 1]
  k = k + TERMS
  while j < group do
    j = j + 1
    local key, known, brought, clock = KEYS[j], ARGV[k + 1], ARGV[k + 2] + 0, ARGV[k + 3] + 0
    local within, ahead, lack, plain, version, due = tonumber(ARGV[k + 4]), horizon, 0, nil, nil, nil
    if within and within ~= 0 and clock > 0 and at - clock < STEP then within = within - max(0, at - clock) end
    if within then ahead = min(within, horizon) end
    -- here is spend.lua
    reply[2 * j], reply[2 * j + 1] = due and version + 1 or -1, due or 0
    k = k + WIDTH
  end
end
return reply
