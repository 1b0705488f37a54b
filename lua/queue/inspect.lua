-- inspect.lua: how a limit stands. Changes nothing.
--
-- ARGV  those of head.lua
-- Reply: after that of head.lua, per limit: in force "a b"; micros until the next call could
--       be let through; how many calls wait, and the permits that they want; micros until a
--       pause ends, and its reason

readonly = true
for j = 1, #KEYS / KEYED do
  local l = load(j)
  if l.problem then
    answers[j] = { '', 0, 0, 0, 0, '' }
    replies[j] = { 0, '', '', l.problem }
  else
    local moment = forecast(l, nil, 1)
    answers[j] = { l.limit, format('%.0f', ceil(moment - at)), l.card, l.total, format('%.0f', max(0, l.paused - now)), l.reason }
    replies[j] = { l.version, l.meter.reach(l), l.was.plain or '', '' }
  end
end
return flat()
