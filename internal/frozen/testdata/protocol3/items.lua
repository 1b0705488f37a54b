-- items.lua: the items of an ask. All are read before any of them changes something: see ask.lua.

local SIMPLE = 7 -- arguments of a simple item: new calls that wait, at one limit

local simple, items, i = (#ARGV - OWN) % SIMPLE == 0, nil, OWN + 1
while simple and ARGV[i] do
  local count = tonumber(ARGV[i])
  simple = ARGV[i + 2] == '0' and ARGV[i + 3] == '1' and ARGV[i + 6] == '' and
    count and count >= 1 and count <= 10000 and count == floor(count) and tonumber(ARGV[i + 1])
  i = i + SIMPLE
end
i = OWN + 1
if not simple then items = {} end
while not simple and ARGV[i] do
  local count, how = tonumber(ARGV[i]), tonumber(ARGV[i + 2])
  local kind = how and how >= 0 and how < 128 and how % 16
  local counts = count and count >= 1 and count <= 10000 and count == floor(count)
  if not (counts and tonumber(ARGV[i + 1]) and kind and kind <= 8 and kind == floor(kind) and (kind < 4 or kind == 8 or count == 1)) then
    return bad('count, number, how: want 1 to 10000 calls, 1 with an ID, a number, 0 to 8 or 16 to 24, or 32, 64 or both more', i, 3)
  end
  local item = { count = count, number = ARGV[i + 1], settles = kind % 2 == 1, waits = kind % 4 < 2 }
  i = i + 3
  if how % 64 >= 32 then
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
  if item.within then -- the deadline counts from when the caller sent the ask; some of that time has passed, by the clock that it sent
    local clock = tonumber(ARGV[HEAD + WIDTH * (tonumber(ARGV[i + 1]) or 0)] or '') or 0
    if clock > 0 and at - clock > 0 and at - clock < STEP then item.within = item.within - (at - clock) end
  end
  items[#items + 1], i = item, i + 1 + 3 * item.parts
  for k = 1, how >= 64 and item.parts or 0 do
    local most = tonumber(ARGV[i] or '')
    if not (finite(most) and most >= 0) then return bad('most: want a number of at least 0', i, 1) end
    item.most = item.most or {}
    item.most[k], i = most, i + 1
  end
end
