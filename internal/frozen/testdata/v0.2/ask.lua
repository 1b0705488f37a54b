-- ask.lua: turns, or places, for a batch of calls, each of one limit or of several.
--
-- ARGV  after those of head.lua, per item:
--         count        calls that are alike; more than one only if all are new
--         number       names the first of them; the next ones follow
--         how          the sum of 1: its cost is settled later; 2: it does not wait: a turn that
--                      is due at once, or no place; 4: it has an ID; 16: it names its flow. Or 8,
--                      24 with a flow: turns ahead of calls: all at once if nobody waits, or none
--         of a flow:   weight: its part of the limit, 1 of calls that name none; urgent: 0, or
--                      the part of the limit that urgent calls have together, and this is
--                      one; and its name
--         of turns ahead: for how many micros they are to be usable: the bucket lacks
--                      what comes in that time
--         with an ID:  the ID; patience: a call whose turn is further away than so many
--                      micros is booked, and does not wait (below 0: so is every call);
--                      latest: one whose turn is further away than that is not booked
--         n, then n times: limit (index), cost, tag ('' of a new call)
-- Reply: after that of head.lua, per item either 1 and the time until the last
--       turn (of a run: turn k of n is due (n-k)*cost*interval before; all may be used
--       until burst-cost intervals later) or 0, then how many calls were answered: at most
--       16 of an item, the others have to ask again; then for each of those
--         1 waitMicros usableMicros, n tags    a turn; to be used from and until then. Of a
--                                              call that is to be settled: its records
--         0 waitMicros which, n tags           a place; the wait is a forecast, and the
--                                              call waits at that of its limits. Of one
--                                              that does not wait: the forecast alone
--         3 waitMicros which, n tags           booked: to come back for its turn by then
--         4 waitMicros which, n tags           its turn is too late; nothing has changed
--         2 0 problem, n tags                  refused; nothing has changed. Of CLOCK: ask
--                                              again
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

-- horizonOf is how far ahead a turn may be given.
local function horizonOf(parts, due)
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
    leave(l, placeOf(asker, p), p.cost)
    served(l, p.tag, p.cost)
    p.record = asker.settles and (l.meter.record(l, due) or 0)
    l.meter.spend(l, p.cost, due, asker.id, asker.what)
    l.last = format('%s %.0f %.0f', asked, l.lastCost + p.cost, ceil(due))
    usable = min(usable, l.meter.usable(l, p.cost, due))
    if asker.booking then had(l, asker.booking.id, p) end
    if p.record and l.kind ~= 'r' and l.kind ~= 's' then
      call('ZADD', l.log, format('%.0f', p.record), asker.id .. ':' .. p.cost)
      call('ZREMRANGEBYRANK', l.log, 0, -MOST_RECORDS - 1)
      l.logged = true
    end
  end
  return usable
end

-- wait gives a call a place at the limit that holds it back most, and at no other, or books
-- it there. One that does not wait has the forecast alone.
local function wait(parts, asker)
  local booking, which, latest = asker.booking, 1, -huge
  for k, p in ipairs(parts) do
    p.tag = p.tag or asker.waits and newTag(p.l) or nil
    local moment = booking and returning(p.l, p.tag, p.cost, booking.patience) or forecast(p.l, p.tag, p.cost)
    if moment > latest then which, latest = k, moment end
  end
  if not asker.waits then return 0, latest, which end
  if booking and latest - at > booking.latest then
    for _, p in ipairs(parts) do
      if p.charged then refund(p.l, placeOf(asker, p), p.tag) end
    end
    return 4, latest, which
  end
  local books = booking and latest - at > booking.patience
  for k, p in ipairs(parts) do
    local place = placeOf(asker, p)
    if k == which and not books then enter(p.l, p.tag, place, p.cost) else leave(p.l, place, p.cost) end
    if booking then book(p.l, booking.id, p.cost, k == which and books and p.tag or -p.tag, latest) end
    p.l.latest = max(p.l.latest, ceil(latest))
    askedAgain(p.l, asker.id, p.cost)
  end
  return books and 3 or 0, latest, which
end

local function refusal(parts)
  for _, p in ipairs(parts) do
    if not p.l or p.l.problem then return p.l and p.l.problem or 'BADARG limit: want an index of KEYS' end
    local most = (p.l.kind == 'q' or p.l.kind == 'r' or p.l.kind == 's') and p.l.a or p.l.kind == 'p' and p.l.b or 1e9
    if not (p.cost and p.cost >= 1 and p.cost == floor(p.cost)) then return 'BADARG cost: want a whole number above 0' end
    if p.cost > most then return format('EXCEEDS cost: want at most %.17g, got %.0f', most, p.cost) end
    if p.tag and not (p.tag > 0 and p.tag <= 9e15) then return 'BADARG tag: want a number above 0, at most 9e15' end
  end
end

local function askOne(answer, asker, parts)
  local problem = refusal(parts)
  for _, p in ipairs(problem and {} or parts) do
    if p.l.meter.asks and p.l.meter.asks(p.l, asker.id, p.cost, asker.what) then
      problem = 'CLOCK number: of a call that has slots since then, got ' .. asker.id
      break
    end
  end
  local status, moment, extra = 2, 0, problem
  if not problem then
    local booking = asker.booking
    for _, p in ipairs(parts) do
      local back = false
      if booking and not p.tag then
        p.tag = tagOf(p.l, booking.id, p.cost)
        back = p.tag ~= nil
        if back and p.l.virtual == 0 then supersede(p.l, p.tag, asker.id) end
      end
      order(p, asker, back)
    end
    local due = booking and booking.patience < 0 and huge or agree(parts)
    local last = at + (asker.waits and horizonOf(parts, due) or 0)
    if due <= last and room(parts) <= last then
      status, moment = 1, due
      extra = format('%.0f', floor(spendAll(parts, due, asker) - at))
    else
      status, moment, extra = wait(parts, asker)
    end
    moment = moment - at
  end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = status, format('%.0f', ceil(moment)), extra
  for _, p in ipairs(parts) do
    answer[#answer + 1] = p.record and format('%.0f', p.record) or p.tag and format('%.0f', p.tag) or ''
  end
end

-- A full Redis refuses no write once a script has removed something. So it is asked first: else some
-- calls would have turns here, while other processes take Redis for away and use their shares.
local full = pcall('ZADD', KEYS[2], 'XX', 0, '')
if type(full) == 'table' and full.err and match(full.err, 'OOM') then return full end

for _, item in ipairs(rest) do
  for k = 0, min(item.count, MOST_ALIKE) - 1 do asking[format('%s:%.0f', ARGV[7], item.number + k)] = true end
end
for _, item in ipairs(rest) do
  local count, flow = min(item.count, MOST_ALIKE), item.flow
  local suffix = flow and ':' .. (flow.urgent > 0 and '0' or flow.text) .. ':' .. flow.name or ''
  local answer = { 0, count }
  for k = 0, count - 1 do
    local id = format('%s:%.0f', ARGV[7], item.number + k)
    local parts = {}
    for p = 1, item.parts do
      local i = item.first - 2 + 3 * p
      local j, tag = tonumber(ARGV[i]), ARGV[i + 2]
      local known = j and KEYS[KEYED * j] and j >= 1
      parts[p] = { l = known and (limits[j] or load(j)) or nil, cost = tonumber(ARGV[i + 1]),
        tag = tag ~= '' and (tonumber(tag) or 0 / 0) or nil }
    end
    askOne(answer, { id = id, suffix = suffix, flow = flow, what = item.id or flow and flow.name or '', settles = item.how % 2 == 1, waits = item.how % 4 < 2, booking = item.id and item }, parts)
  end
  answers[item.n] = answer
end
finish()
return flat()
