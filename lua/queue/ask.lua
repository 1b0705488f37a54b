-- ask.lua: turns, or places, for a batch of calls, each of one limit or of several.
--
-- ARGV  after those of head.lua, per item:
--         count        calls that are alike; more than one only if all are new
--         number       names the first of them; the next ones follow
--         how          0; 1: what it really costs is told later; 2: it does not wait: a
--                      turn that is due at once, or no place; 3: both
--         n, then n times: limit (index), cost, tag ('' of a new call)
-- Reply: after that of head.lua, per item either 1 and the time until the last
--       turn (of a run: turn k of n is due (n-k)*cost*interval before; all may be used
--       until burst-cost intervals later) or 0, then how many calls were answered: at most
--       16 of an item, the others have to ask again; then for each of those
--         1 waitMicros usableMicros, n tags    a turn; to be used from and until then. Of a
--                                              call that is to be settled: its records
--         0 waitMicros 0, n tags               a place; the wait is a forecast. Of a call
--                                              that does not wait: the forecast alone
--         2 0 problem, n tags                  refused; nothing has changed
--       All times count from when the reply arrives, at nowMicros + wayMicros.

local near, grace = tonumber(ARGV[4]), tonumber(ARGV[5])
local asking = {} -- the calls of this ask
local MOST_ROUNDS, MOST_RECORDS, MOST_ALIKE = 16, 10000, 16

-- agree is the first moment that suits all meters.
local function agree(parts)
  local due, last = at, nil
  for _ = 1, MOST_ROUNDS do
    last = due
    for _, p in ipairs(parts) do due = max(due, p.l.meter.next(p.l, p.cost, last), p.l.paused) end
    if due == last then return due end
  end
  return huge
end

local function ahead(parts, due)
  if #parts > 1 then
    for _, p in ipairs(parts) do
      if p.l.meter.overflows(p.l, due) then return near end
    end
  end
  return horizon
end

local function room(parts)
  local latest = at
  for _, p in ipairs(parts) do latest = max(latest, entitled(p.l, p.tag, p.cost, grace, asking)) end
  return latest
end

local function spendAll(parts, due, asker)
  local usable = huge
  for _, p in ipairs(parts) do
    local l = p.l
    local mine, cost = match(l.last, '^(%S+ %S+) (%S+)')
    local asked = ARGV[7] .. ' ' .. ARGV[8]
    l.lastCost, l.lastDue = mine == asked and tonumber(cost) or 0, mine == asked and tonumber(match(l.last, ' (%S+)$')) or nil
    leave(l, asker.place .. p.cost, p.cost)
    p.record = asker.settles and (l.meter.record(l, due) or 0)
    l.meter.spend(l, p.cost, due, asker.id)
    l.last = format('%s %.0f %.0f', asked, l.lastCost + p.cost, ceil(due))
    usable = min(usable, l.meter.usable(l, p.cost, due))
    if p.record and l.kind ~= 'r' then
      call('ZADD', l.log, format('%.0f', p.record), asker.id .. ':' .. p.cost)
      call('ZREMRANGEBYRANK', l.log, 0, -MOST_RECORDS - 1)
      l.logged = true
    end
  end
  return usable
end

-- wait gives a call a place at the limit that holds it back most, and at no other.
local function wait(parts, asker)
  local slowest, latest = nil, -huge
  for _, p in ipairs(parts) do
    p.tag = p.tag or newTag(p.l)
    local moment = forecast(p.l, p.tag, p.cost)
    if moment > latest then slowest, latest = p, moment end
  end
  for _, p in ipairs(parts) do
    local place = asker.place .. p.cost
    if p == slowest then enter(p.l, p.tag, place, p.cost) else leave(p.l, place, p.cost) end
    p.l.latest = max(p.l.latest or 0, latest)
  end
  return latest
end

-- without is the forecast of a call that takes no place.
local function without(parts)
  local latest = at
  for _, p in ipairs(parts) do latest = max(latest, forecast(p.l, p.tag, p.cost)) end
  return latest
end

local function refusal(parts)
  for _, p in ipairs(parts) do
    if not p.l or p.l.problem then return p.l and p.l.problem or 'BADARG limit: want an index of KEYS' end
    local most = (p.l.kind == 'q' or p.l.kind == 'r') and p.l.a or p.l.kind == 'p' and p.l.b or 1e9
    if not (p.cost and p.cost >= 1 and p.cost == floor(p.cost)) then return 'BADARG cost: want a whole number above 0' end
    if p.cost > most then return format('EXCEEDS cost: want at most %.17g, got %.0f', most, p.cost) end
    if p.tag and not finite(p.tag) then return 'BADARG tag: want a number' end
  end
end

local function askOne(answer, asker, parts)
  local problem = refusal(parts)
  local status, moment, extra = 2, 0, problem
  if not problem then
    local due = agree(parts)
    local last = at + (asker.waits and ahead(parts, due) or 0)
    if max(due, room(parts)) <= last then
      status, moment = 1, due
      extra = format('%.0f', floor(spendAll(parts, due, asker) - at))
    else
      status, moment, extra = 0, asker.waits and wait(parts, asker) or without(parts), 0
    end
    moment = moment - at
  end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = status, format('%.0f', ceil(moment)), extra
  for _, p in ipairs(parts) do
    answer[#answer + 1] = p.record and format('%.0f', p.record) or p.tag and format('%.0f', p.tag) or ''
  end
end

for _, item in ipairs(rest) do
  for k = 0, min(tonumber(ARGV[item[1]]), MOST_ALIKE) - 1 do asking[format('%s:%.0f', ARGV[7], ARGV[item[1] + 1] + k)] = true end
end
for _, item in ipairs(rest) do
  local i = item[1]
  local count, number, how = min(tonumber(ARGV[i]), MOST_ALIKE), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local answer = { 0, count }
  for k = 0, count - 1 do
    local id = format('%s:%.0f', ARGV[7], number + k)
    local parts = {}
    for p = 1, item[3] do
      local j = tonumber(ARGV[i + 1 + 3 * p])
      local known = j and KEYS[KEYED * j] and j >= 1
      local tag = ARGV[i + 3 + 3 * p]
      parts[p] = { l = known and (limits[j] or load(j)) or nil, cost = tonumber(ARGV[i + 2 + 3 * p]),
        tag = tag ~= '' and (tonumber(tag) or 0 / 0) or nil }
    end
    askOne(answer, { id = id, place = id .. ':', settles = how % 2 == 1, waits = how < 2 }, parts)
  end
  answers[item[2]] = answer
end
finish()
return flat()
