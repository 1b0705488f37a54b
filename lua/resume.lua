-- resume.lua: a pause ends now.
--
-- ARGV  those of head.lua
-- Reply: after that of head.lua, per limit 1, or 0: it was not paused

for j = 1, #KEYS / KEYED do
  local l, ended = load(j), 0
  if not l.problem then
    if l.paused > 0 then
      anew(l, at)
      l.meter.release(l, min(l.held, l.paused - now))
      l.paused, l.held, l.reason, ended = 0, 0, '', 1
      tell(l, 'resumed')
    end
    l.resumed = l.epoch -- memories of before bring no pause: see recall
  end
  answers[j] = { ended }
end
finish()
return flat()
