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
local function spend(j, count, cost, ahead)
  local i = HEAD + WIDTH * (j - 1)
  local known, limit = ARGV[i + 5], ' ' .. run .. ' p ' .. ARGV[i + 2] .. ' ' .. ARGV[i + 3]
  if ARGV[i + 8] ~= '' or string.sub(known, -#limit) ~= limit then return end
  local f = pcall('HMGET', KEYS[KEYED * j - 3], 'plain', 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction')
  if f[1] ~= known then return end
  local version, seen, free, part = tonumber(f[2]), tonumber(f[3]), tonumber(f[4]), tonumber(f[5])
  local interval, burst = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  if not (version and seen and free and part and cost and count and cost >= 1 and cost <= burst and count >= 1) then return end
  if version < tonumber(ARGV[i + 6]) or stepped(seen, tonumber(ARGV[i + 10])) ~= 0 then return end
  local full = at - burst * interval
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
  call('HSET', KEYS[KEYED * j - 3], 'version', version + 1, 'seenMicros', now, 'nextFreeTicketMicros',
    format('%.0f', free + whole), 'fraction', whole == part and '0' or format('%.17g', part - whole), 'last', last)
  if floor(now / RENEW) ~= floor(seen / RENEW) then
    call('PEXPIRE', KEYS[KEYED * j - 3], ceil((burst * interval + horizon + 3 * RENEW) / 1000))
  end
  replies[j] = { version + 1, format('%.0f', ceil(wait)), '', '' }
  return ceil(wait)
end

-- An item is: count, number, how (see ask.lua), parts; for each part the limit, the cost and
-- the tag. What can not be read changes nothing.
do
  local i = HEAD + WIDTH * #KEYS / KEYED + 1
  while ARGV[i] do
    local count, parts = tonumber(ARGV[i]), tonumber(ARGV[i + 3])
    if not (count and count >= 1 and count <= 10000 and tonumber(ARGV[i + 1]) and match(ARGV[i + 2] or '', '^[0-3]$')) then
      return redis.error_reply('BADARG count, number, how: want 1 to 10000 calls, a number, 0 to 3, got ' .. ARGV[i] .. ', ' ..
        (ARGV[i + 1] or 'nothing') .. ', ' .. (ARGV[i + 2] or 'nothing'))
    end
    if not (parts and parts >= 1 and parts <= 16 and ARGV[i + 3 + 3 * parts]) then
      return redis.error_reply('BADARG parts: want 1 to 16 limits, each with cost and tag, got ' .. (ARGV[i + 3] or 'nothing'))
    end
    i = i + 4 + 3 * parts
  end
  local items = 0
  i = HEAD + WIDTH * #KEYS / KEYED + 1
  while ARGV[i] do
    local parts, j = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
    local wait = parts == 1 and ARGV[i + 6] == '' and (ARGV[i + 2] == '0' or ARGV[i + 2] == '2') and not (general and general[j]) and j and KEYS[KEYED * j] and
      spend(j, tonumber(ARGV[i]), tonumber(ARGV[i + 5]), ARGV[i + 2] == '0' and horizon or 0)
    items = items + 1
    if wait then
      answers[items] = { 1, wait }
    else -- what comes later for the same limit must not overtake
      rest, general = rest or {}, general or {}
      rest[#rest + 1] = { i, items, parts }
      for p = 1, parts do general[tonumber(ARGV[i + 1 + 3 * p]) or 0] = true end
    end
    i = i + 4 + 3 * parts
  end
end
if not rest then return flat() end
