-- settle.lua: what calls really used is told. Each call counts once.
--
-- ARGV  after those of head.lua, per item:
--         limit        index
--         id           "<process>:<number>" of the call
--         cost         that it had
--         used         permits; above or below the cost
-- Reply: after that of head.lua, per item 1, or 0: not known, or settled before

local MOST_USED = 1e12

for i = HEAD + WIDTH * #KEYS / KEYED + 1, #ARGV, 4 do
  local l, id, cost, used = limit(i), ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local settled = 0
  if l and cost and used and used >= 0 and used <= MOST_USED and used == floor(used) then
    if l.kind == 'r' then
      settled = l.meter.settle(l, cost, used, nil, id) and 1 or 0
    else
      local record = call('ZSCORE', l.log, id .. ':' .. ARGV[i + 2])
      if record then
        call('ZREM', l.log, id .. ':' .. ARGV[i + 2])
        l.meter.settle(l, cost, used, tonumber(record))
        settled, l.logged = 1, true
      end
    end
    if settled == 1 and used < cost and l.card > 0 then tell(l, 'settled') end
  end
  answers[#answers + 1] = { settled }
end
finish()
return flat()
