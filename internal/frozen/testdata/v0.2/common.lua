-- common.lua: ask for calls that find nobody waiting, at a paced limit that the caller
-- knows as it is. Two commands per limit. Everything else goes to the rest of the script.
--
-- `plain` is the text of such a limit: epoch, run, kind, interval, burst. A caller that
-- sends the same text was told of this very state, so nothing in it needs a second look.

local rest, general
local run = ARGV[6] == '' and '-' or ARGV[6]
local spent = {} -- permits of this call, by limit

-- spend gives count calls of a cost their turns, and returns the time until the last of
-- them is due; nil if that is not for this path.
local function spend(j, count, cost, ahead, lack)
  local i = HEAD + WIDTH * (j - 1)
  local known, limit = ARGV[i + 5], ' ' .. run .. ' p ' .. ARGV[i + 2] .. ' ' .. ARGV[i + 3]
  if ARGV[i + 8] ~= '' or string.sub(known, -#limit) ~= limit then return end
  local f = pcall('HMGET', KEYS[KEYED * j - 5], 'plain', 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction')
  if f[1] ~= known then return end
  local version, seen, free, part = tonumber(f[2]), tonumber(f[3]), tonumber(f[4]), tonumber(f[5])
  local interval, burst = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local brought, clock = tonumber(ARGV[i + 6]), tonumber(ARGV[i + 10])
  if not (version and seen and free and part and finite(brought) and finite(clock) and cost and cost >= 1 and cost <= burst and cost == floor(cost)) then return end
  if version < brought or stepped(seen, clock) ~= 0 then return end
  local full = at - burst * interval + lack
  if free + part < full then
    free = floor(full)
    part = full - free
  end
  part = part + count * cost * interval
  local wait = free - at + part
  if not (wait <= ahead) then return end
  local whole = floor(part)
  spent[j] = (spent[j] or 0) + count * cost
  local last = ARGV[7] .. ' ' .. ARGV[8] .. ' ' .. spent[j]
  call('HSET', KEYS[KEYED * j - 5], 'version', version + 1, 'seenMicros', now, 'nextFreeTicketMicros',
    format('%.0f', free + whole), 'fraction', whole == part and '0' or format('%.17g', part - whole), 'last', last)
  if floor(now / RENEW) ~= floor(seen / RENEW) then
    call('PEXPIRE', KEYS[KEYED * j - 5], ceil((burst * interval + horizon + 3 * RENEW) / 1000))
  end
  replies[j] = { version + 1, format('%.0f', ceil(wait)), '', '' }
  return ceil(wait)
end

-- bad is the error of the n arguments from i on.
local function bad(what, i, n)
  local got = {}
  for k = 1, n do got[k] = ARGV[i + k - 1] or 'nothing' end
  return redis.error_reply('BADARG ' .. what .. ', got ' .. table.concat(got, ', '))
end

-- An item is: count number how [weight urgent flow] [id patience latest | lack] n, then n times
-- limit cost tag (see ask.lua). All items are read before one of them changes anything.
do
  local items, i = {}, OWN + 1
  while ARGV[i] do
    local count, how = tonumber(ARGV[i]), tonumber(ARGV[i + 2])
    local counts = count and count >= 1 and count <= 10000 and count == floor(count)
    local flow = how and how >= 16 and {}
    how = flow and how - 16 or how
    if not (counts and tonumber(ARGV[i + 1]) and how and how >= 0 and how <= 8 and how == floor(how) and (how < 4 or how == 8 or count == 1)) then
      return bad('count, number, how: want 1 to 10000 calls, 1 with an ID, a number, 0 to 8 or 16 to 24', i, 3)
    end
    local number = ARGV[i + 1]
    if flow then
      flow.text, flow.weight, flow.urgent, flow.name = ARGV[i + 3], tonumber(ARGV[i + 3] or ''), tonumber(ARGV[i + 4] or ''), ARGV[i + 5] or ''
      if not (finite(flow.weight) and flow.weight >= 1e-6 and flow.weight <= 1e6 and finite(flow.urgent) and flow.urgent >= 0 and flow.urgent < 1) then
        return bad('weight, urgent: want a number from 1e-6 to 1e6, and one of at least 0, less than 1', i + 3, 2)
      end
      i = i + 3
    end
    local first = how < 4 and i + 3 or how == 8 and i + 4 or i + 6
    local item = { i = i, first = first, count = count, how = how, number = number, flow = flow or nil }
    if how == 8 then
      item.lack = tonumber(ARGV[i + 3] or '')
      if not (finite(item.lack) and item.lack >= 0) then
        return bad('lack: want a number of at least 0', i + 3, 1)
      end
    elseif how >= 4 then
      item.id, item.patience, item.latest = ARGV[i + 3], tonumber(ARGV[i + 4] or ''), tonumber(ARGV[i + 5] or '')
      if not (item.id ~= '' and finite(item.patience) and item.latest and item.latest == item.latest) then
        return bad('id, patience, latest: want a text and two numbers', i + 3, 3)
      end
    end
    local parts = tonumber(ARGV[first])
    if not (parts and parts >= 1 and parts <= 16 and ARGV[first + 3 * parts]) then
      return bad('parts: want 1 to 16 limits, each with cost and tag', first, 1)
    end
    item.parts, i = parts, first + 1 + 3 * parts
    items[#items + 1] = item
  end
  for n, item in ipairs(items) do
    local first, how = item.first, item.how
    local j = tonumber(ARGV[first + 1])
    local light = item.parts == 1 and ARGV[first + 3] == '' and (how == 0 or how == 2 or how == 8 or how == 4 and item.patience >= 0)
    local wait = light and not (general and general[j]) and j and KEYS[KEYED * j] and
      spend(j, item.count, tonumber(ARGV[first + 2]), (how == 2 or how == 8) and 0 or horizon, item.lack or 0)
    if wait then
      answers[n] = { 1, wait }
    elseif how == 8 then
      answers[n] = { 0, 0 }
    else -- what comes later for the same limit must not overtake
      rest, general = rest or {}, general or {}
      item.n = n
      rest[#rest + 1] = item
      for p = 1, item.parts do
        local q = tonumber(ARGV[first - 2 + 3 * p])
        if q and KEYS[KEYED * q] then general[q] = true end
      end
    end
  end
end
if not rest then return flat() end
