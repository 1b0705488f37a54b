-- common.lua: the common path of an ask: nobody waits, and the caller knows the state of the paced limit.
-- It takes two commands per limit. All other items go to the rest of the script.
--
-- `plain` is the text of such a limit: epoch, run, kind, interval, burst. A caller that sends the same
-- text knows this state, so nothing in it is checked again. The path is one text without functions, as
-- Lua takes its time to make them.

local rest, general -- the items for the rest of the script, and the limits of these items
local run = ARGV[RUN] == '' and '-' or ARGV[RUN]
local asked, spent = ARGV[PROCESS] .. ' ' .. ARGV[SERIAL], { nil } -- this ask, and its permits by limit
local a, b, interval, burst, terms -- of the last limit that was read

for n = 1, simple and (#ARGV - OWN) / SIMPLE or #items do
  local item, due = items and items[n], nil
  local at1 = item and item.first or OWN + SIMPLE * (n - 1) + 4
  local count, j, cost = item and item.count or tonumber(ARGV[at1 - 3]), tonumber(ARGV[at1 + 1]), tonumber(ARGV[at1 + 2])
  local light = not item or item.parts == 1 and ARGV[at1 + 3] == '' and (not item.id or item.waits and item.patience >= 0)
  if light and not (general and general[j]) and j and KEYS[KEYED * j] then
    repeat -- once: break leaves the item to the rest of the script
      local k, key = HEAD + WIDTH * (j - 1), KEYS[KEYED * (j - 1) + STATE]
      if ARGV[k + A] ~= a or ARGV[k + B] ~= b then
        a, b = ARGV[k + A], ARGV[k + B]
        interval, burst, terms = tonumber(a), tonumber(b), ' ' .. run .. ' p ' .. a .. ' ' .. b
      end
      local known = ARGV[k + KNOWN]
      if ARGV[k + BACK] ~= '' or sub(known, -#terms) ~= terms then break end
      local f = pcall('HMGET', key, 'plain', 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction')
      if f[1] ~= known then
        local joins = f[1] == '~' .. known and (not item or item.waits and not (item.id or item.flow or item.lack))
        due = joins and join(j, count, tonumber(item and item.number or ARGV[at1 - 2]), cost, item) or nil
        break
      end
      if item and item.settles then break end
      local version, seen, free, was = tonumber(f[2]), tonumber(f[3]), tonumber(f[4]), tonumber(f[5] or 0)
      local brought, clock = tonumber(ARGV[k + VERSION]), tonumber(ARGV[k + CLOCK])
      if not (version and seen and free and was and brought and clock and version >= brought) then break end
      if seen > now or (now - seen > STEP or seen % 1 > 0) and clock ~= 0 and not (now - clock <= STEP) then break end -- the clock has stepped
      if not (cost and cost >= 1 and cost <= burst and cost == floor(cost)) then break end
      local lack = item and item.lack
      local full, part = at - burst * interval + (lack or 0), was
      if free + part < full then
        free = floor(full)
        part = full - free
      end
      part = part + count * cost * interval
      local ahead = horizon
      if item then ahead = (lack or not item.waits) and 0 or item.within and min(horizon, item.within) or horizon end
      local wait = free - at + part
      if not (wait <= ahead and ahead >= 0) then break end
      local whole = floor(part)
      part, due = part - whole, ceil(wait)
      spent[j] = (spent[j] or 0) + count * cost
      local next, this, moment, last = format('%d', version + 1), format('%d', now), format('%d', free + whole), asked .. ' ' .. spent[j]
      if part == was then
        call('HSET', key, 'version', next, 'seenMicros', this, 'nextFreeTicketMicros', moment, 'last', last)
      else
        call('HSET', key, 'version', next, 'seenMicros', this, 'nextFreeTicketMicros', moment, 'last', last, 'fraction', format('%.17g', part))
      end
      if floor(now / RENEW) ~= floor(seen / RENEW) then
        call('PEXPIRE', key, ceil((burst * interval + horizon + 3 * RENEW) / 1000))
      end
      k = 4 * j - 2
      reply[k], reply[k + 1], reply[k + 2], reply[k + 3] = version + 1, due, '', ''
    until true
  end
  if due then
    answers[n] = due
  elseif item and item.lack then
    answers[n] = { 0, 0 }
  else -- later items must not overtake this item at any of its limits
    rest, general = rest or {}, general or {}
    item = item or { count = count, number = ARGV[at1 - 2], waits = true, first = at1, parts = 1 }
    item.n = n
    rest[#rest + 1] = item
    for p = 1, item.parts do
      local q = tonumber(ARGV[at1 - 2 + 3 * p])
      if q then general[q] = true end
    end
  end
end
if not rest then return flat(reply, answers) end
