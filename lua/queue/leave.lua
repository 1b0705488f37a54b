-- leave.lua: places are left, and turns that nobody used go back.
--
-- ARGV  after those of head.lua, per item:
--         limit        index
--         what         place | turn
--         which        of a place: its number | of turns: "<process> <serial>" of their ask
--         cost         of the place | how many permits of that ask are still needed, its
--                      first ones. The others go back if nobody has spent since; else
--                      they lapse. So it may be repeated
-- Reply: after that of head.lua, per item how many permits went back, or were waited for

for i = HEAD + WIDTH * #KEYS / KEYED + 1, #ARGV, 4 do
  local l, cost, left = limit(i), tonumber(ARGV[i + 3]), 0
  if l and cost and cost >= 0 then
    if ARGV[i + 1] == 'turn' then
      left = giveBack(l, ARGV[i + 2], cost)
    elseif leave(l, format('%s:%s:%.0f', ARGV[7], ARGV[i + 2], cost), cost) then
      left = cost
    end
    if left > 0 and l.card > 0 then tell(l, 'left') end
  end
  answers[#answers + 1] = { left }
end
finish()
return flat()
