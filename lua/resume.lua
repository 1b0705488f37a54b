-- resume.lua: a pause ends now.
--
-- ARGV  those of head.lua
-- Reply: after that of head.lua, per limit 1, or 0: it was not paused. News: resumed
--
-- No turn is void or moves. Turns may have been granted for the end of the pause, if that was near: see
-- release in meter.lua.

for j = 1, COUNT do
  local l, ended = load(j), 0
  if not l.problem then
    if l.paused > 0 then
      anew(l, at)
      l.meter.release(l)
      l.paused, l.held, l.reason, ended = 0, 0, '', 1
      tell(l, 'resumed')
    end
    l.resumed = l.epoch -- memories of before bring no pause: see recall
  end
  answers[j] = { ended }
end
return finish(wake)
