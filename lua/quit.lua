-- quit.lua: calls leave the queue of a paced limit: see queue.lua. It takes the first items of leave.lua for which
-- that is all; the rest of the script begins with the next one.

local done, told = OWN, {} -- arguments of these items; the limits whose waiting calls were notified
while ARGV[done + 2] == 'place' do
  local j, number, cost = tonumber(ARGV[done + 1]), match(ARGV[done + 3] or '', '^%d+$'), match(ARGV[done + 4] or '', '^[1-9]%d*$')
  local q = j and number and cost and #cost <= 15 and KEYS[KEYED * j] and queueOf(j)
  local place = q and ARGV[PROCESS] .. ':' .. number .. ':' .. cost
  if not q or q.first == place then break end
  local behind = call('ZRANGE', q.places, -1, -1)[1] ~= place -- else no call may come sooner
  local left = call('ZREM', q.places, place) * cost
  q.total = q.total - left
  keep(q)
  if left > 0 and behind and not told[j] and ARGV[CHANNEL] ~= '' then pcall('PUBLISH', ARGV[CHANNEL], format('news left %.0f %s', now, q.key)) end
  told[j], answers[#answers + 1], done = left > 0 and behind or told[j], { left }, done + 4
end
if not ARGV[done + 1] then return flat(reply, answers) end
