-- set.lua: puts another limit in force, whatever limits the processes were configured with.
--
-- ARGV  after the arguments of head.lua:
--         a b          as of the limit's kind; '' '': the limit of the processes again
--         micros       for so long; 0: until it is set again
-- Reply: the reply of head.lua. News: limit, see become in state.lua. The first script
--       after that time publishes it again

local FOR_GOOD = 9e15 -- a moment in the year 2255
local i = OWN + 1
local a, b, micros = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
local reset = ARGV[i] == '' and ARGV[i + 1] == ''
local least = ARGV[HEAD + KIND] == 'q' and 0 or 1 -- the margin of a window may be 0
if not reset and not (finite(a) and finite(b) and a > 0 and a <= LONGEST and b >= least and b <= LONGEST) then
  return bad('a, b: want numbers above 0, at most 1e15', i, 2)
end
if not finite(micros) or micros < 0 or micros > LONGEST then
  return bad('micros: want a number of at least 0, at most 1e15', i + 2, 1)
end
for j = 1, COUNT do
  local l = load(j)
  if not l.problem then
    l.setUntil = reset and 0 or micros == 0 and FOR_GOOD or ceil(now + micros)
    become(l, reset and l.own or ARGV[i] .. ' ' .. ARGV[i + 1])
  end
end
return finish(wake)
