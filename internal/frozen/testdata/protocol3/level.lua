-- level.lua: sets how many permits are left of the limits.
--
-- ARGV  after the arguments of head.lua:
--         permits      '': all of them
--         raises       1; 0: a limit that has fewer left keeps what it has
-- Reply: after the reply of head.lua, per limit how many permits were left before, and 1 if that has
--       changed. News: left, if there are more now
--
-- Granted turns stay, and count as used before. A pause goes on. A limit with warm-up stores no permits:
-- if at least one is to be left, the next call does not wait for the calls before it.

local permits, raises = tonumber(ARGV[OWN + 1]), ARGV[OWN + 2] == '1'
if ARGV[OWN + 1] ~= '' and not (finite(permits) and permits >= 0) then
  return bad('permits: want a number of at least 0, or nothing', OWN + 1, 1)
end

-- raise puts more permits to a limit. Costs from before get no refund, as the provider has reset its count.
local function raise(l, to)
  if l.kind == 'q' then
    l.used[1] = l.a - to
  elseif l.kind == 'r' then
    erase('UNLINK', l.log)
    if to < l.a then l.meter.spend(l, l.a - to, at) end
  else
    l.meter.change(l, l.a, l.b)
    local free = l.kind == 'p' and at - to * l.a or to >= 1 and at or l.free
    l.free = floor(free)
    l.part = free - l.free
  end
  l.held = 0
  sooner(l)
  tellLeft(l)
end

for j = 1, COUNT do
  local l, was, changed = load(j), 0, 0
  if not l.problem and l.kind == 's' then
    l.problem = 'BADARG kind: want a limit whose permits come back by themselves, got slots'
  elseif not l.problem then
    was = l.kind == 'w' and (l.free + l.part <= at and 1 or 0) or l.meter.left(l)
    local to = min(permits or huge, l.kind == 'p' and l.b or l.kind == 'w' and 1 or l.a)
    if l.kind ~= 'p' then to = floor(to) end
    if to > was and raises then
      raise(l, to)
      changed, l.last = 1, '' -- the last spending is part of it, and does not come back
    elseif to < was and l.kind ~= 'w' then
      l.meter.spend(l, was - to, at)
      changed, l.last = 1, ''
    end
  end
  answers[j] = { format('%.0f', floor(was)), changed }
end
return finish(wake)
