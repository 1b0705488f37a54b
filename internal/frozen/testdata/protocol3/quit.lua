-- quit.lua: calls leave the queue of a paced limit: see queue.lua. It takes the first items of leave.lua for which
-- that is all; the rest of the script begins with the next one.

local done, told = OWN, {} -- arguments of these items; the first tags that leave, by limit
while ARGV[done + 2] == 'place' do
  local j, number, cost = tonumber(ARGV[done + 1]), match(ARGV[done + 3] or '', '^%d+$'), match(ARGV[done + 4] or '', '^[1-9]%d*$')
  local q = j and number and cost and #cost <= 15 and KEYS[KEYED * j] and queueOf(j)
  local place = q and ARGV[PROCESS] .. ':' .. number .. ':' .. cost
  if not q or q.first == place then break end
  local behind = call('ZRANGE', q.places, -1, -1)[1] ~= place -- else no call may come sooner
  local tag = tonumber(call('ZSCORE', q.places, place) or nil)
  local left = call('ZREM', q.places, place) * cost
  q.total = q.total - left
  keep(q)
  if left > 0 and behind then told[q.key] = min(told[q.key] or huge, tag) end
  answers[#answers + 1], done = { left }, done + 4
end
for key, tag in pairs(ARGV[CHANNEL] ~= '' and told or {}) do pcall('PUBLISH', ARGV[CHANNEL], format('news left:%.0f %.0f %s', tag, now, key)) end
if not ARGV[done + 1] then return flat(reply, answers) end
