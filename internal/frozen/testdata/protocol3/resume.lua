-- resume.lua: a pause ends now.
--
-- ARGV  the arguments of head.lua
-- Reply: after the reply of head.lua, per limit 1, or 0: it was not paused. News: resumed
--
-- No turn moves or is revoked. If the end of the pause was near, turns may have been granted for it:
-- see release in meter.lua.

for j = 1, COUNT do
  local l, ended = load(j), 0
  if not l.problem then
    if l.paused > 0 then
      anew(l, at)
      l.meter.release(l)
      l.paused, l.held, l.reason, ended = 0, 0, '', 1
      tell(l, 'resumed')
    end
    l.resumed = l.epoch -- what callers remember from before brings no pause: see recall
  end
  answers[j] = { ended }
end
return finish(wake)
