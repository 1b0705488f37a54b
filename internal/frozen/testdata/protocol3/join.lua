-- join.lua: new calls join the queue of a paced limit behind all others: see queue.lua. They get the places
-- and forecasts that ask.lua would give.

local ALIKE = 16 -- so many calls of an item are answered

-- join returns the answer to an item, or nil if the rest of the script has to answer it.
local function join(j, count, number, cost, item)
  local q = cost and cost >= 1 and cost == floor(cost) and cost <= tonumber(ARGV[HEAD + WIDTH * (j - 1) + B]) and queueOf(j)
  if not q or sub(q.first, 1, #q.head + 1) ~= q.head .. ':' then return end
  local due = q.spent + tonumber(match(q.first, '^[^:]*:[^:]*:(%d+)')) * q.a -- when the permits of the head are there
  if q.since > at and due < q.since then q.since = ceil(max(due, at)) end
  if at > q.since then return end
  count = min(count, ALIKE)
  local last = q.spent + (q.total + count * cost) * q.a
  local most = item and item.most and item.most[1] or 0
  if item and item.within and last - at > item.within or most > 0 and q.card + count > most then return end
  if floor(max(q.latest, last) / RENEW) ~= floor(q.latest / RENEW) then return end -- the keys live longer
  local names, places, answer = {}, {}, { 0, count }
  for k = 1, count do
    local tag, n = max(q.seq + 1, floor(at)), 4 * k - 1
    names[k] = format('%s:%.0f:%.0f', ARGV[PROCESS], number + k - 1, cost)
    q.seq, q.total, places[2 * k - 1], places[2 * k] = tag, q.total + cost, format('%.0f', tag), names[k]
    answer[n], answer[n + 1], answer[n + 2], answer[n + 3] = 0, format('%.0f', ceil(q.spent + q.total * q.a - at)), 1, places[2 * k - 1]
  end
  for _, place in ipairs(call('ZMSCORE', q.places, unpack(names))) do
    if place then return end -- it is from an ask whose reply was lost
  end
  call('ZADD', q.places, unpack(places))
  keep(q)
  return answer
end
