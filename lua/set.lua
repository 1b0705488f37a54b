-- set.lua: another limit is in force, whatever the processes were made with.
--
-- ARGV  after those of head.lua:
--         a b          as of the limit's kind; '' '': that of the processes again
--         micros       for so long; 0: until it is set again
-- Reply: that of head.lua. News: eased, where turns that were given stay; else limit. Who comes first
--       after that time tells eased again

local FOR_GOOD = 9e15 -- a moment in the year 2255
local i = OWN
local a, b, micros = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
local reset = ARGV[i + 1] == '' and ARGV[i + 2] == ''
local least = ARGV[HEAD + 1] == 'q' and 0 or 1 -- a window's margin may be none
if not reset and not (finite(a) and finite(b) and a > 0 and a <= 1e15 and b >= least and b <= 1e15) then
  return redis.error_reply('BADARG a, b: want numbers above 0, at most 1e15, got ' .. tostring(ARGV[i + 1]) .. ', ' .. tostring(ARGV[i + 2]))
end
if not finite(micros) or micros < 0 or micros > 1e15 then
  return redis.error_reply('BADARG micros: want a number of at least 0, at most 1e15, got ' .. tostring(ARGV[i + 3]))
end
-- eases reports whether the limit lets more through than the one that is in force: turns that
-- were given stay.
local function eases(l)
  if l.kind == 'p' then return a <= l.a and b >= l.b end
  if l.kind == 'w' then return a <= l.a and b <= l.b end
  return a >= l.a and b <= l.b
end

for j = 1, #KEYS / KEYED do
  local l = load(j)
  if not l.problem then
    local what = 'limit'
    if reset then
      l.setUntil = 0
      become(l, l.own)
    else
      what = eases(l) and 'eased' or what
      l.setUntil = micros == 0 and FOR_GOOD or ceil(now + micros)
      become(l, ARGV[i + 1] .. ' ' .. ARGV[i + 2])
    end
    tell(l, what)
  end
end
finish()
return flat()
