-- settle.lua: what calls really used is told. Each call counts once.
--
-- ARGV  after those of head.lua, per item:
--         limit        index
--         id           "<process>:<number>" of the call. '': permits that the process has
--                      spent without Redis, while that was away
--         cost         that it had | micros since the process has heard of the limit
--         used         permits; above or below the cost
-- Reply: after that of head.lua, per item 1, or 0: not known, or settled before

local MOST_USED = 1e12

-- away spends what a process used while Redis was away. If nobody has used the limit again before,
-- others may still use their shares, and tell what they have spent a moment later: no turn is due
-- for a second.
local function away(l, micros, used)
  if l.fresh or now - l.seen > micros / 2 then
    l.meter.hold(l, now + AHEAD + (l.kind == 'p' and l.a or 0))
    if l.kind == 'q' or l.kind == 'r' then l.paused = max(l.paused, now + AHEAD) end -- they hold no moment
  end
  if used == 0 then return end
  if l.kind == 'r' then l.meter.settle(l, 0, used, nil, '') else l.meter.spend(l, used, at) end
  l.last = ''
end

for i = OWN + 1, #ARGV, 4 do
  local l, id, cost, used = limit(i), ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local settled = 0
  if l and cost and used and used >= 0 and used <= MOST_USED and used == floor(used) then
    if id == '' then
      away(l, cost, used)
      settled = 1
    elseif l.kind == 'r' then
      settled = l.meter.settle(l, cost, used, nil, id) and 1 or 0
    else
      local record = call('ZSCORE', l.log, id .. ':' .. ARGV[i + 2])
      if record then
        call('ZREM', l.log, id .. ':' .. ARGV[i + 2])
        l.meter.settle(l, cost, used, tonumber(record))
        settled, l.logged = 1, true
      end
    end
    if settled == 1 and used < cost and l.card > 0 then
      sooner(l)
      if id ~= '' then tell(l, 'settled') end
    end
  end
  answers[#answers + 1] = { settled }
end
finish()
return flat()
