-- resume.lua: a pause ends now.
--
-- ARGV  those of head.lua
-- Reply: after that of head.lua, per limit 1, or 0: it was not paused. News: resumed
--
-- No turn is void or moves. Some may have been given for the end of the pause, which was near then.
-- If so the meter does not step back, and the next turns come behind those.

local function turnsOut(l)
  local first = l.kind == 'p' and l.a or 0 -- see hold
  return l.paused <= now + AHEAD and l.free + l.part > l.paused - first
end

for j = 1, #KEYS / KEYED do
  local l, ended = load(j), 0
  if not l.problem then
    if l.paused > 0 then
      anew(l, at)
      if not turnsOut(l) then l.meter.release(l, min(l.held, l.paused - now)) end
      l.paused, l.held, l.reason, ended = 0, 0, '', 1
      tell(l, 'resumed')
    end
    l.resumed = l.epoch -- memories of before bring no pause: see recall
  end
  answers[j] = { ended }
end
finish()
return flat()
