-- inspect.lua: the state of a limit, for people. It changes nothing.
--
-- ARGV  the arguments of head.lua
-- Reply: after the reply of head.lua, per limit: the limit in force, "a b"; micros until the next
--       call could be let through; how many calls wait, and the permits that they need; micros
--       until a pause ends, and its reason; for how many more micros the limit is set, 0 if it is
--       not; how many booked calls have not come back yet; permits that could be spent now; how
--       many processes live. For slots then how many calls hold some, and for each of these
--       "<process>:<number>:<cost>:<what>" and for how many micros it has held them

-- Nothing is written. Keys and members that another script would remove are treated as missing.
local WRITES = { UNLINK = true, ZADD = true, ZREM = true, ZREMRANGEBYRANK = true }
local NOTHING = { ZCARD = 0, ZCOUNT = 0, ZSCORE = false }
local really, gone = call, {}
call = function(name, key, ...)
  if WRITES[name] then
    for _, taken in ipairs(name == 'UNLINK' and { key, ... } or name == 'ZREM' and { ... } or {}) do gone[taken] = true end
    return 0
  end
  if not gone[key] then return really(name, key, ...) end
  local nothing = NOTHING[name]
  return nothing == nil and {} or nothing
end

for j = 1, COUNT do
  local l = load(j)
  if l.problem then
    answers[j] = { '', 0, 0, 0, 0, '', 0, 0, 0, 0, l.kind == 's' and 0 or nil }
    say(j, 0, '', '', l.problem)
  else
    local held = l.meter.holders and l.meter.holders(l, gone) or {}
    local function micros(moment) return format('%.0f', max(0, moment)) end
    answers[j] = { l.limit, micros(ceil(forecast(l, nil, 1) - at)), l.card, l.total, micros(l.paused - now), l.reason, micros(l.setUntil - now),
      l.bookings > 0 and call('ZCOUNT', l.booked, '(' .. format('%.0f', l.front), '+inf') or 0, micros(floor(l.meter.left(l))),
      call('ZCOUNT', l.processes, '(0', '+inf'), unpack(held) }
    say(j, l.version, l.meter.reach(l), l.plans and textOf(l) or l.plain, '')
  end
end
return flat(reply, answers)
