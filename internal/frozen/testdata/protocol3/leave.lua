-- leave.lua: calls leave their places, return turns that they did not use, and end their use of slots.
--
-- ARGV  after the arguments of head.lua, per item:
--         limit        index
--         what which cost, one of
--           place "<number>" cost             the call leaves its place
--           book  "<number> <tag> <id>" cost  so it does, and the tag is kept: below 0, if it does
--                                             not count there
--           turn  "<process> <serial>" keep   the first `keep` permits of that ask are still
--                                             needed. The others come back, unless another call
--                                             has spent permits since. It may be repeated
--           drop  "<id>" cost                 the booking ends
--           done  "<number>" cost:what        the call is done and frees its slots
--           keep  "<number> <micros>" cost:what  the call has held its slots since then, and still
--                                             does
--           free  "<number>" cost:what        the call loses its slots for good
--           look  "" 0                        messages of free slots are repeated to calls that
--                                             have not asked
--         If the place names a flow, the cost of place and book ends with ":<weight>:<flow>"
-- Reply: after the reply of head.lua, per item how many permits came back, how many the place
--       waited for, or how many are held within the limit

local MOST_TAG = 9e15 -- whole micros are exact below

for i = OWN + 1, #ARGV, 4 do
  local what, which, size = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3] or ''
  local l, cost, flow = limit(i), match(size, '^([^:]*)(.*)$')
  cost = tonumber(cost)
  local left, whole = 0, cost and cost >= 1 and cost <= 1e15 and cost == floor(cost)
  if l and not l.problem and cost and cost >= 0 then
    local number, tag, id = match(which, '^(%d+) (-?%d+) ?(.*)$')
    tag = tonumber(tag)
    local who = format('%s:%s:%.0f%s', ARGV[PROCESS], number or which, cost, flow)
    if what == 'turn' then
      left = giveBack(l, which, cost)
    elseif what == 'drop' then
      if whole then bookings().drop(l, which, cost) end
    elseif what == 'done' or what == 'keep' or what == 'free' then
      left = whole and l.meter[what] and l.meter[what](l, who, tag) or 0
    elseif what == 'book' then
      if whole and tag and tag ~= 0 and id ~= '' and math.abs(tag) <= MOST_TAG then
        left = leave(l, who, cost) and cost or 0
        bookings().book(l, id, cost, tag, bookings().returning(l, math.abs(tag), cost, 0))
      end
    elseif what ~= 'look' then
      local score = l.virtual > 0 and call('ZSCORE', l.places, who)
      if leave(l, who, cost) then
        left = cost
        if score then shares().refund(l, who, tonumber(score)) end
      end
    end
    if left > 0 then tellLeft(l) end
  end
  answers[#answers + 1] = { left }
end
return finish(wake)
