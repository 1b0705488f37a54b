-- common.lua: ask for calls that find nobody waiting, at a paced limit that the caller knows as it
-- is. Two commands per limit. Everything else goes to the rest of the script.
--
-- `plain` is the text of such a limit: epoch, run, kind, interval, burst. A caller that sends the
-- same text was told of this very state, so nothing in it needs a second look.
-- It is one text without functions, as Lua takes its time to make them.

local rest, general -- the items for the rest of the script, and the limits of these
local run = ARGV[RUN] == '' and '-' or ARGV[RUN]
local asked, spent = ARGV[PROCESS] .. ' ' .. ARGV[SERIAL], {} -- this ask, and its permits by limit

-- All items are read before one of them changes anything: see ask.lua.
local items, i = {}, OWN + 1
while ARGV[i] do
  local count, how = tonumber(ARGV[i]), tonumber(ARGV[i + 2])
  local kind = how and how >= 0 and how < 64 and how % 16
  local counts = count and count >= 1 and count <= 10000 and count == floor(count)
  if not (counts and tonumber(ARGV[i + 1]) and kind and kind <= 8 and kind == floor(kind) and (kind < 4 or kind == 8 or count == 1)) then
    return bad('count, number, how: want 1 to 10000 calls, 1 with an ID, a number, 0 to 8 or 16 to 24, or 32 more', i, 3)
  end
  local item = { count = count, number = ARGV[i + 1], settles = kind % 2 == 1, waits = kind % 4 < 2 }
  i = i + 3
  if how >= 32 then
    item.within, i = tonumber(ARGV[i] or ''), i + 1
    if not finite(item.within) then return bad('within: want a number', i - 1, 1) end
  end
  if how % 32 >= 16 then
    local weight, urgent = tonumber(ARGV[i] or ''), tonumber(ARGV[i + 1] or '')
    if not (finite(weight) and weight >= 1e-6 and weight <= 1e6 and finite(urgent) and urgent >= 0 and urgent < 1) then
      return bad('weight, urgent: want a number from 1e-6 to 1e6, and one of at least 0, less than 1', i, 2)
    end
    item.flow = { text = ARGV[i], weight = weight, urgent = urgent, name = ARGV[i + 2] or '' }
    i = i + 3
  end
  if kind == 8 then
    item.lack, i = tonumber(ARGV[i] or ''), i + 1
    if not (finite(item.lack) and item.lack >= 0) then return bad('lack: want a number of at least 0', i - 1, 1) end
  elseif kind >= 4 then
    item.id, item.patience, item.latest = ARGV[i], tonumber(ARGV[i + 1] or ''), tonumber(ARGV[i + 2] or '')
    if not (item.id ~= '' and finite(item.patience) and item.latest and item.latest == item.latest) then
      return bad('id, patience, latest: want a text and two numbers', i, 3)
    end
    i = i + 3
  end
  item.first, item.parts = i, tonumber(ARGV[i])
  if not (item.parts and item.parts >= 1 and item.parts <= 16 and ARGV[i + 3 * item.parts]) then
    return bad('parts: want 1 to 16 limits, each with cost and tag', i, 1)
  end
  if item.within then -- it counts from when the caller sent the ask: some of it has passed, by the clock that it sent
    local clock = tonumber(ARGV[HEAD + WIDTH * (tonumber(ARGV[i + 1]) or 0)] or '') or 0
    if clock > 0 and at - clock > 0 and at - clock < STEP then item.within = item.within - (at - clock) end
  end
  items[#items + 1], i = item, i + 1 + 3 * item.parts
end

for n, item in ipairs(items) do
  local first, lack, due = item.first, item.lack, nil
  local j, cost = tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  local light = item.parts == 1 and ARGV[first + 3] == '' and not item.settles and (not item.id or item.waits and item.patience >= 0)
  if light and not (general and general[j]) and j and KEYS[KEYED * j] then
    repeat -- once: break leaves the item to the rest of the script
      local k, key = HEAD + WIDTH * (j - 1), KEYS[KEYED * (j - 1) + STATE]
      local known, limit = ARGV[k + KNOWN], ' ' .. run .. ' p ' .. ARGV[k + A] .. ' ' .. ARGV[k + B]
      if ARGV[k + BACK] ~= '' or string.sub(known, -#limit) ~= limit then break end
      local f = pcall('HMGET', key, 'plain', 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction')
      if f[1] ~= known then break end
      local version, seen, free, part = tonumber(f[2]), tonumber(f[3]), tonumber(f[4]), tonumber(f[5])
      local interval, burst = tonumber(ARGV[k + A]), tonumber(ARGV[k + B])
      local brought, clock = tonumber(ARGV[k + VERSION]), tonumber(ARGV[k + CLOCK])
      if not (version and seen and free and part and finite(brought) and finite(clock)) then break end
      if not (cost and cost >= 1 and cost <= burst and cost == floor(cost)) then break end
      if version < brought or stepped(seen, clock) ~= 0 then break end
      local full = at - burst * interval + (lack or 0)
      if free + part < full then
        free = floor(full)
        part = full - free
      end
      part = part + item.count * cost * interval
      local wait, ahead = free - at + part, (lack or not item.waits) and 0 or item.within and min(horizon, item.within) or horizon
      if not (wait <= ahead and ahead >= 0) then break end
      local whole = floor(part)
      spent[j] = (spent[j] or 0) + item.count * cost
      call('HSET', key, 'version', version + 1, 'seenMicros', now, 'nextFreeTicketMicros', format('%.0f', free + whole),
        'fraction', whole == part and '0' or format('%.17g', part - whole), 'last', asked .. ' ' .. spent[j])
      if floor(now / RENEW) ~= floor(seen / RENEW) then
        call('PEXPIRE', key, ceil((burst * interval + horizon + 3 * RENEW) / 1000))
      end
      due = ceil(wait)
      replies[j] = { version + 1, format('%.0f', due), '', '' }
    until true
  end
  if due then
    answers[n] = { 1, due }
  elseif lack then
    answers[n] = { 0, 0 }
  else -- later items must not overtake it at any of its limits
    rest, general = rest or {}, general or {}
    item.n = n
    rest[#rest + 1] = item
    for p = 1, item.parts do
      local q = tonumber(ARGV[first - 2 + 3 * p])
      if q then general[q] = true end
    end
  end
end
if not rest then return flat() end
