-- leave.lua: places are left, turns that nobody used go back, and slots whose calls are done.
--
-- ARGV  after those of head.lua, per item:
--         limit        index
--         what which cost, one of
--           place "<number>" cost             the place is left
--           book  "<number> <tag> <id>" cost  so is it, and the tag is kept: below 0, if it does
--                                             not count there
--           turn  "<process> <serial>" keep   of that ask the first `keep` permits are still
--                                             needed. The others go back if nobody has spent
--                                             since, else they lapse. So it may be repeated
--           drop  "<id>" cost                 the booking ends
--           done  "<number>" cost:what        the call is done, with its slots
--           keep  "<number> <micros>" cost:what  it holds its slots still, since then
--           free  "<number>" cost:what        its slots are taken away, and it does not have them back
--           look  "" 0                        who was told that there is a slot, and has not come,
--                                             is told again
--         The cost of place and book has ":<weight>:<flow>" behind it where the place names one
-- Reply: after that of head.lua, per item how many permits went back, or were waited for, or
--       are held within the limit

local MOST_TAG = 9e15 -- whole micros are exact below

for i = OWN + 1, #ARGV, 4 do
  local size, flow = match(ARGV[i + 3] or '', '^([^:]*)(.*)$')
  local l, cost, left = limit(i), tonumber(size), 0
  if l and cost and cost >= 0 then
    local what, which = ARGV[i + 1], ARGV[i + 2]
    local number, tag, id = match(which, '^(%d+) (-?%d+) (.+)$')
    local whole = cost >= 1 and cost <= 1e15 and cost == floor(cost)
    tag = tonumber(tag or 0)
    if what == 'turn' then
      left = giveBack(l, which, cost)
    elseif what == 'look' then
      left = 0
    elseif what == 'drop' then
      if whole then drop(l, which, cost) end
    elseif what == 'done' or what == 'keep' or what == 'free' then
      left = whole and l.kind == 's' and l.meter[what](l, ARGV[7], which, cost, string.sub(flow, 2)) or 0
    elseif what == 'book' then
      if whole and tag and tag ~= 0 and math.abs(tag) <= MOST_TAG then
        left = leave(l, format('%s:%s:%.0f%s', ARGV[7], number, cost, flow), cost) and cost or 0
        book(l, id, cost, tag, returning(l, math.abs(tag), cost, 0))
      end
    else
      local place = format('%s:%s:%.0f%s', ARGV[7], which, cost, flow)
      local score = l.virtual > 0 and call('ZSCORE', l.places, place)
      if leave(l, place, cost) then
        left = cost
        if score then refund(l, place, tonumber(score)) end
      end
    end
    if left > 0 then tellLeft(l) end
  end
  answers[#answers + 1] = { left }
end
finish()
return flat()
