-- pause.lua: no call is due for a time. The pause that ends last counts.
--
-- ARGV  after the arguments of head.lua: micros (for so long), reason; keeps: 1: stored permits stay,
--       and permits come meanwhile, 0: a paced limit begins with one permit; every: this is a hard stop, and
--       one call of the fleet may probe in so many micros. Without it: a plain pause. With micros 0, nothing
--       is paused: a call asks whether it may probe, and the next one may in so many micros
-- Reply: after the reply of head.lua, per limit the micros until the pause ends; for a probe 0: it is not
--       stopped; 2: not now, also where another limit is paused; above: the call may probe, and the stop ends at that
--       moment. News: until and paused. Granted turns that are due before the end of the pause are revoked. Turns that
--       are due later stay, as their permits are spent already.
--
-- The reason of a hard stop begins with "hard stop <when the next probe may go>". Processes of earlier
-- versions read a pause. Where the reason of a plain pause begins so, "pause: " goes before it.

-- A stop is known by its end. A stop without a known end that is renewed soon keeps its end: the provider may be serving
-- the call that probes it, while late refusals come.
local RENEWED = 12 -- times `every`

local micros, every = tonumber(ARGV[OWN + 1]), tonumber(ARGV[OWN + 4] or '')
local probes = micros == 0 and every
if not finite(micros) or micros <= 0 and not probes or micros > LONGEST then
  return bad('micros: want a number above 0, at most 1e15', OWN + 1, 1)
end
if every and (not finite(every) or every <= 0 or every > LONGEST) then
  return bad('every: want a number above 0, at most 1e15', OWN + 4, 1)
end
local goes = true
if probes then
  for j = 1, COUNT do
    local l = load(j)
    local due = not l.problem and tonumber(match(l.reason, STOPPED) or nil)
    if l.problem or not due and l.paused > now or due and due > now and due <= now + every then goes = false end -- later only if the clock has stepped back
  end
end
for j = 1, COUNT do
  local l = load(j)
  local due, why = match(l.problem and '' or l.reason, STOPPED .. '(.*)$')
  if probes then
    if due and goes then l.reason = format('hard stop %.0f%s', now + every, why) end
    answers[j] = { not due and 0 or goes and format('%.0f', l.paused) or 2 }
  else
    local keeps = due and every and every < micros and RENEWED * every or 0
    local longer = not l.problem and now + micros > l.paused + keeps
    if longer then
      l.paused = ceil(now + micros)
      anew(l, l.paused)
      if ARGV[OWN + 3] ~= '1' then l.held = l.held + l.meter.hold(l, l.paused) end
      if not due then l.reason = string.gsub(ARGV[OWN + 2] or '', '^hard stop ', 'pause: %0') end -- a stop goes on
    end
    if every and not l.problem then l.reason = format('hard stop %.0f %s', now + every, ARGV[OWN + 2]) end
    if longer or every and not l.problem then tell(l, format('until:%.0f,paused', l.paused)) end
    answers[j] = { l.problem and 0 or format('%.0f', l.paused - now) }
  end
end
return finish()
