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
local this = format('%d', now)

for n = 1, simple and (#ARGV - OWN) / SIMPLE or #items do
  local item, due = items and items[n], nil
  local at1 = item and item.first or OWN + SIMPLE * (n - 1) + 4
  local count, j, cost = item and item.count or tonumber(ARGV[at1 - 3]), tonumber(ARGV[at1 + 1]), tonumber(ARGV[at1 + 2])
  local light = not item or item.parts == 1 and ARGV[at1 + 3] == '' and (not item.id or item.waits and item.patience >= 0)
  if light and not (general and general[j]) and j and KEYS[KEYED * j] then
    local k, key = HEAD + WIDTH * (j - 1), KEYS[KEYED * (j - 1) + STATE]
    if ARGV[k + A] ~= a or ARGV[k + B] ~= b then
      a, b = ARGV[k + A], ARGV[k + B]
      interval, burst, terms = tonumber(a) or 0 / 0, tonumber(b) or 0 / 0, ' ' .. run .. ' p ' .. a .. ' ' .. b
    end
    local known, brought, clock, lack = ARGV[k + KNOWN], tonumber(ARGV[k + VERSION]), tonumber(ARGV[k + CLOCK]), item and item.lack or 0
    if ARGV[k + BACK] == '' and sub(known, -#terms) == terms and brought and clock and cost and cost >= 1 and cost <= burst and cost == floor(cost) then
      local permits, ahead, plain, version, last = count * cost, horizon, nil, nil, nil
      if item then ahead = item.settles and -1 or (item.lack or not item.waits) and 0 or item.within and min(horizon, item.within) or horizon end
      -- here is spend.lua
      k = 4 * j - 2
      if due then
        reply[k], reply[k + 1], reply[k + 2], reply[k + 3] = version + 1, due, '', ''
      elseif plain == '~' .. known and (not item or item.waits and not (item.id or item.flow or item.lack)) then
        due = join(j, count, tonumber(item and item.number or ARGV[at1 - 2]), cost, item)
      end
    end
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
