-- take.lua: ask for new calls at paced limits where nobody waits, each of which the caller knows as
-- it is. This is the common path of ask alone, with few keys and arguments.
--
-- KEYS  for each limit: its state
-- ARGV  NOW WAY HORIZON PROCESS SERIAL: see head.lua
--       then for each limit:
--         KNOWN A B VERSION CLOCK: see head.lua. KNOWN ends with the RUN, the kind, A and B of the caller
--         COUNT COST  how many calls ask, and the permits of each, at most the burst
--         WITHIN      '': a turn may be as far ahead as the HORIZON. 0: it must be due at once. Else
--                     it must be due so many micros after the caller sent the request
-- Reply: the time, then for each limit its new version, and micros until the last turn is due. The
-- version -1 says that nothing has changed: these calls have to ask in full.

local call, pcall = redis.call, redis.pcall
local max, min, floor, ceil, format = math.max, math.min, math.floor, math.ceil, string.format
local OWN, WIDTH = 5, 8
local STEP, RENEW = 1000000, 10000000 -- see head.lua

local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local way, horizon = tonumber(ARGV[2]), tonumber(ARGV[3])
local at, reply = now + way, { now, nil, nil }

for j = 1, #KEYS do
  local key, k, given, due = KEYS[j], OWN + WIDTH * (j - 1), -1, 0
  repeat -- once: break leaves the calls to ask
    local f = pcall('HMGET', key, 'plain', 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction')
    if f[1] ~= ARGV[k + 1] then break end
    local version, seen, free, was = tonumber(f[2]), tonumber(f[3]), tonumber(f[4]), tonumber(f[5] or 0)
    local interval, burst, clock = tonumber(ARGV[k + 2]), tonumber(ARGV[k + 3]), tonumber(ARGV[k + 5])
    if not (version and seen and free and was and version >= tonumber(ARGV[k + 4])) then break end
    if seen > now or now - seen > STEP and clock ~= 0 and not (now - clock <= STEP) then break end -- the clock has stepped
    local full, part, permits = at - burst * interval, was, ARGV[k + 6] * ARGV[k + 7]
    if free + part < full then
      free = floor(full)
      part = full - free
    end
    part = part + permits * interval
    local within, ahead = tonumber(ARGV[k + 8]), horizon
    if within and within ~= 0 and clock > 0 and at - clock < STEP then within = within - max(0, at - clock) end
    if within then ahead = min(within, horizon) end
    local wait = free - at + part
    if not (wait <= ahead and ahead >= 0) then break end
    local whole = floor(part)
    part, due, given = part - whole, ceil(wait), version + 1
    local next, this, moment, last = format('%d', given), format('%d', now), format('%d', free + whole), ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. permits
    if part == was then
      call('HSET', key, 'version', next, 'seenMicros', this, 'nextFreeTicketMicros', moment, 'last', last)
    else
      call('HSET', key, 'version', next, 'seenMicros', this, 'nextFreeTicketMicros', moment, 'last', last, 'fraction', format('%.17g', part))
    end
    if floor(now / RENEW) ~= floor(seen / RENEW) then
      call('PEXPIRE', key, ceil((burst * interval + horizon + 3 * RENEW) / 1000))
    end
  until true
  reply[2 * j], reply[2 * j + 1] = given, due
end
return reply
