-- spend.lua: the common path at one limit, for take.lua and common.lua, which have it as a part of their text. Where
-- the state is the one that the caller knows, it spends the permits, and sets `due`: when the last of them are there.

repeat -- once: break leaves the calls to the rest of the script, or to ask
  local f = pcall('HMGET', key, 'plain', 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction')
  plain = f[1]
  if plain ~= known then break end
  version = tonumber(f[2])
  local seen, free, was = tonumber(f[3]), tonumber(f[4]), tonumber(f[5] or 0)
  if not (version and seen and free and was and version >= brought) then break end
  if seen > now or now - seen > STEP and clock ~= 0 and not (now - clock <= STEP) then break end -- the clock has stepped
  local full, part = at - burst * interval + lack, was
  if free + part < full then
    free = floor(full)
    part = full - free
  end
  part = part + permits * interval
  local wait = free - at + part
  if not (wait <= ahead and ahead >= 0) then break end
  local whole = floor(part)
  part, due = part - whole, ceil(wait)
  if spent then -- an ask may have several items at a limit
    spent[j] = (spent[j] or 0) + permits
    last = asked .. ' ' .. spent[j]
  end
  local next, moment = format('%d', version + 1), format('%d', free + whole)
  if part == was then
    call('HSET', key, 'version', next, 'seenMicros', this, 'nextFreeTicketMicros', moment, 'last', last)
  else
    call('HSET', key, 'version', next, 'seenMicros', this, 'nextFreeTicketMicros', moment, 'last', last, 'fraction', format('%.17g', part))
  end
  if floor(now / RENEW) ~= floor(seen / RENEW) then
    call('PEXPIRE', key, ceil((burst * interval + horizon + 3 * RENEW) / 1000))
  end
until true
