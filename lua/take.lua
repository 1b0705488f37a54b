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
  local last = ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. permits
  local group = j + ARGV[k + 1]
  k = k + TERMS
  while j < group do
    j = j + 1
    local key, given, due = KEYS[j], -1, 0
    repeat -- once: break leaves the calls to ask
      local f = pcall('HMGET', key, 'plain', 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction')
      if f[1] ~= ARGV[k + 1] then break end
      local version, seen, free, was = tonumber(f[2]), tonumber(f[3]), tonumber(f[4]), tonumber(f[5] or 0)
      local clock, within, full, part, ahead = ARGV[k + 3] + 0, tonumber(ARGV[k + 4]), at - burst * interval, was, horizon
      if not (version and seen and free and was and version >= ARGV[k + 2] + 0) then break end
      if seen > now or (now - seen > STEP or seen % 1 > 0) and clock ~= 0 and not (now - clock <= STEP) then break end -- the clock has stepped
      if free + part < full then
        free = floor(full)
        part = full - free
      end
      part = part + permits * interval
      if within and within ~= 0 and clock > 0 and at - clock < STEP then within = within - max(0, at - clock) end
      if within then ahead = min(within, horizon) end
      local wait = free - at + part
      if not (wait <= ahead and ahead >= 0) then break end
      local whole = floor(part)
      part, due, given = part - whole, ceil(wait), version + 1
      local next, moment = format('%d', given), format('%d', free + whole)
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
    k = k + WIDTH
  end
end
return reply
