-- pause.lua: no call is due for a time. The pause that ends last counts.
--
-- ARGV  after the arguments of head.lua: micros (for so long), reason; keeps: 1: stored permits stay,
--       and permits come meanwhile, 0: a paced limit begins with one permit
-- Reply: after the reply of head.lua, per limit the micros until the pause ends. News: until and
-- paused. Granted turns that are due before that moment are revoked. Turns that are due later stay,
-- as their permits are spent already.

local micros = tonumber(ARGV[OWN + 1])
if not finite(micros) or micros <= 0 or micros > LONGEST then
  return bad('micros: want a number above 0, at most 1e15', OWN + 1, 1)
end
for j = 1, COUNT do
  local l = load(j)
  if not l.problem and now + micros > l.paused then
    l.paused, l.reason = ceil(now + micros), ARGV[OWN + 2] or ''
    anew(l, l.paused)
    if ARGV[OWN + 3] ~= '1' then l.held = l.held + l.meter.hold(l, l.paused) end
    tell(l, format('until:%.0f,paused', l.paused))
  end
  answers[j] = { l.problem and 0 or format('%.0f', l.paused - now) }
end
return finish()
