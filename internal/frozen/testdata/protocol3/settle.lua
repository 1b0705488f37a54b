-- settle.lua: callers report what their calls used in fact. Each call counts once.
--
-- ARGV  after the arguments of head.lua, per item:
--         limit        index
--         id           "<process>:<number>" of the call. '': permits that the process has
--                      spent without Redis, while it was unreachable
--         cost         the cost that the call had; without an id: micros since the last reply
--                      about the limit
--         used         permits; above or below the cost
-- Reply: after the reply of head.lua, per item 1, or 0: not known, or settled before

local MOST_USED = 1e12

-- away spends what a process used while Redis was unreachable. If no call has used the limit since, other
-- processes may still use their shares, and report them a moment later. So no turn is due for a second.
local function away(l, micros, used)
  if l.fresh or now - l.seen > micros / 2 then l.meter.close(l, now + AHEAD) end
  if used == 0 then return end
  l.meter.spend(l, used, at)
  l.last = ''
end

-- settle replaces the cost of a call, and reports whether it was known.
local function settle(l, id, cost, used)
  if l.kind == 'r' then return l.meter.settle(l, tonumber(cost), used, nil, id) end
  local record = call('ZSCORE', l.log, id .. ':' .. cost)
  if not record then return false end
  call('ZREM', l.log, id .. ':' .. cost)
  l.logged = true
  return l.meter.settle(l, tonumber(cost), used, tonumber(record))
end

for i = OWN + 1, #ARGV, 4 do
  local l, id, cost, used = limit(i), ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local settled = false
  if l and not l.problem and cost and used and used >= 0 and used <= MOST_USED and used == floor(used) then
    if id == '' then away(l, cost, used) end
    settled = id == '' or settle(l, id, ARGV[i + 2], used)
    if settled and used < cost and l.card > 0 then
      sooner(l)
      if id ~= '' then tell(l, 'settled') end
    end
  end
  answers[#answers + 1] = { settled and 1 or 0 }
end
return finish(wake)
