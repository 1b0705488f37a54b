-- quota.lua: `a` permits in each window of a calendar, whose edges the caller knows. A call that crosses
-- an edge on its way may be counted in either window. So no call is due within the first or last `b`
-- micros of a window. The state has this window and the next: a call of several limits may be due in the
-- next one before this one is over.

if kinds.q then

local quota = {}
local EARLIER, LATER = 8, 32 -- so many spendings before the last one may come back: of turns that are due, and of other turns

-- windows reads the edges of the call's calendar, from the window that contains `at`.
local function windows(l)
  local text, edges = ARGV[HEAD + WIDTH * (l.j - 1) + EDGES], {}
  for word in gmatch(text, '%S+') do
    local edge = tonumber(word)
    if not edge or edges[#edges] and not (edge > edges[#edges]) then return 'BADARG windows: want rising moments, got ' .. text end
    edges[#edges + 1] = edge
  end
  while edges[2] and at >= edges[2] do table.remove(edges, 1) end
  if not edges[3] or at < edges[1] then return 'CLOCK windows: want the edges around now and two more, got ' .. text end
  l.edge = edges
end

-- The packed field is: window, permits used in it, next window, permits used in that.
local PACKED = { 'window', 'usedThen', 'after', 'usedAfter' }

function quota.unpack(l, text)
  local problem = windows(l) or unpackInto(l, 'meter', PACKED, text or '0 0 0 0')
  if problem then return problem end
  l.used = {}
  for k = 1, 2 do
    local edge = l.edge[k] -- before the window of the state, if the clock went back
    l.used[k] = edge == l.window and l.usedThen or edge == l.after and l.usedAfter or edge < l.window and l.a or 0
  end
end

function quota.pack(l) return format('%.0f %.0f %.0f %.0f', l.edge[1], l.used[1], l.edge[2], l.used[2]) end

local function begin(l, k) -- the first moment of the kth window at which a call may be due
  local last = #l.edge
  if k <= last then return l.edge[k] + l.b end
  return l.edge[last] + (k - last) * (l.edge[last] - l.edge[last - 1]) + l.b
end

local function window(l, moment)
  for k = #l.edge, 2, -1 do
    if moment >= l.edge[k] then return k end
  end
  return 1
end

function quota.next(l, cost, at)
  for k = window(l, at), #l.edge - 1 do
    local moment = max(at, begin(l, k))
    if (l.used[k] or 0) + cost <= l.a and ceil(moment) < l.edge[k + 1] - l.b then return moment end -- callers hear whole micros
  end
  return max(at, begin(l, #l.edge))
end

function quota.spend(l, cost, at)
  local k = window(l, at)
  if l.used[k] then l.used[k] = l.used[k] + cost end
  -- The permits of a turn in another window come back there.
  if l.lastDue and window(l, l.lastDue) ~= k then l.lastCost, l.lastDue = 0, nil end
end

-- keep removes the smallest spendings of a list, of turns that are due or of others, until at most so many are left.
local function keep(all, due, most)
  local count, least = 0, nil
  for k, one in ipairs(all) do
    if one.due == due then
      count = count + 1
      if not least or one.cost <= all[least].cost then least = k end
    end
  end
  if count > most then
    table.remove(all, least)
    keep(all, due, most)
  end
end

-- earlier is the part of `last` with spendings before that of this ask in this window. Permits of a quota come back from
-- any of them, as it does not matter in which order they were spent. The largest spendings of turns that are not due yet are
-- kept, as a pause may revoke these turns, and the largest other ones of the last seconds. Their order stays: see giveBack.
function quota.earlier(l)
  if l.lastDue then return match(l.last, ';.*') or '' end
  local all = {}
  for one, cost, due in gmatch(l.last, '([^ ;]+ [^ ;]+ ([^ ;]+) ([^ ;]+))') do
    due = tonumber(due)
    if due > now - RENEW then all[#all + 1] = { text = ';' .. one, cost = tonumber(cost), due = due <= at } end
  end
  keep(all, true, EARLIER)
  keep(all, false, LATER)
  for k, one in ipairs(all) do all[k] = one.text end
  return table.concat(all)
end

function quota.left(l) return l.a - l.used[1] end

function quota.ahead(l, before, cost)
  local over = before + cost - max(0, l.a - l.used[1]) -- permits beyond `a` count in this window alone
  if over <= 0 then return begin(l, 1) end
  return begin(l, 1 + ceil((over + min(l.used[2], l.a)) / l.a))
end

function quota.usable(l, _, due) return l.edge[window(l, due) + 1] - l.b end

function quota.unspend(l, cost, due)
  local k = due >= l.edge[1] and window(l, due)
  if k and l.used[k] then l.used[k] = max(0, l.used[k] - cost) end
  return true
end

function quota.pace(l) return (l.edge[3] - l.edge[2]) / l.a end
function quota.life(l) return l.edge[3] - now end
quota.reach = quota.pack

function quota.remember(l, reach)
  local w, n, v, m = match(reach, '^(%d+) (%d+) (%d+) (%d+)$')
  for k = 1, 2 do
    local brought = l.edge[k] == tonumber(w) and tonumber(n) or l.edge[k] == tonumber(v) and tonumber(m) or 0
    if brought > l.used[k] then l.used[k], l.last = brought, '' end -- `last` may be of before what came back
  end
end

function quota.record(_, due) return ceil(due) end
function quota.settle(l, cost, used, due)
  quota.unspend(l, cost - used, due)
  return due >= l.edge[1] and used - cost or 0
end

METERS.q = under(quota, METER)
end
