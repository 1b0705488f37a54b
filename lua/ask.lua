-- ask.lua: turns, or places, for a batch of calls, each of one limit or of several.
--
-- ARGV  after the arguments of head.lua, per item:
--         count        how many equal calls; more than one only if all are new
--         number       the number of the first call; the next calls have the next numbers
--         how          the sum of 1: its cost is settled later; 2: it does not wait: it gets a turn
--                      that is due at once, or no place; 4: it has an ID; 16: it names its flow;
--                      32: the call has a deadline; 64: the queue is bounded. Or 8, or 24 with a
--                      flow: turns ahead of calls: all at once if nobody waits, or no turn
--         of a call with a deadline: micros after the ask was sent: a call whose turn is later
--                      gets neither turn nor place
--         of a call with a flow: weight: its part of the limit, 1 for calls that name no flow;
--                      urgent: 0, or the part of the limit that all urgent calls have together,
--                      if this call is urgent; and the name of the flow
--         of turns ahead: for how many micros they are to be usable: the bucket lacks
--                      the permits that come in that time
--         of a call with an ID: the ID; patience: micros: if its turn is further away, the call is
--                      booked and does not wait (below 0: every call is booked); latest: micros:
--                      if its turn is further away, the call is not booked
--         n, then n times: limit (index), cost, tag ('' for a new call)
--         of a bounded queue: n times how many calls may wait or be booked, 0: any number
-- Reply: after the reply of head.lua, per item 1 and the time until the last turn, or 0. (In a run
--       of n turns, turn k is due (n-k)*cost*interval before the last one, and each may be used
--       until burst-cost intervals after it is due.) Then the number of answered calls, which is at
--       most 16 per item: the other calls have to ask again. Then for each answered call
--         1 waitMicros usableMicros, n tags    a turn, which may be used from and until then. A
--                                              call whose cost is settled later gets its records
--                                              in place of the tags
--         0 waitMicros which, n tags           a place: the wait is a forecast, and `which` is the
--                                              limit at which the call waits. A call that does not
--                                              wait gets the forecast alone
--         3 waitMicros which, n tags           booked: the call asks again for its turn by then
--         4 waitMicros which, n tags           its turn is too late: it has no place. New equal
--                                              calls behind it get no answer
--         5 waitMicros which, n tags           the queue of that limit is full; nothing has changed
--         2 0 problem, n tags                  refused; nothing has changed. After CLOCK the call
--                                              asks again
--       All times count from the arrival of the reply, at nowMicros + wayMicros.

local near = tonumber(ARGV[NEAR])
local MOST_ROUNDS, MOST_RECORDS, MOST_ALIKE, SPREAD, FARTHEST = 16, 10000, 16, 600000000, 500000

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

-- isNew reports whether a call brings no tag to a limit, and has neither a booking nor a place there.
local function isNew(p) return not (p.old or p.back or p.placed) end

-- spendAll spends the permits of a call at all its limits, and returns until when its turn may be used.
local function spendAll(parts, due, item)
  local usable = huge
  for _, p in ipairs(parts) do
    local l = p.l
    local mine, cost, before = match(l.last, '^([^ ;]+ [^ ;]+) ([^ ;]+) ?([^ ;]*)')
    l.lastCost, l.lastDue = 0, nil
    if mine == asked then l.lastCost, l.lastDue = tonumber(cost) or 0, tonumber(before) end
    leave(l, p.place, p.cost)
    p.new = isNew(p)
    if l.virtual > 0 then shares().served(l, l.wanted > 0 and bookings().reached(l, item, p) or p.tag) end
    p.record = item.settles and l.meter.record(l, due)
    l.meter.spend(l, p.cost, due, item.call, item.what)
    local earlier = l.meter.earlier and l.meter.earlier(l) or ''
    l.last = format('%s %.0f %.0f%s', asked, l.lastCost + p.cost, ceil(due), earlier)
    usable = min(usable, l.meter.usable(l, p.cost, due))
    if item.id then bookings().had(l, item.id, p) end
    if p.record and p.record ~= 0 then
      call('ZADD', l.log, format('%.0f', p.record), item.call .. ':' .. p.cost)
      call('ZREMRANGEBYRANK', l.log, 0, -MOST_RECORDS - 1)
      l.logged = true
    end
  end
  return usable
end

-- farthest is the part whose limit holds a call back most, and when its turn is there. When one limit has permits, the
-- permits of another one may be used up: without the second round, the call would ask again and again.
local function farthest(parts, item, moment)
  local which, latest = 1, -huge
  for k, p in ipairs(parts) do
    p.tag = p.tag or item.waits and newTag(p.l) or nil
    local there = moment(p.l, p.tag, p.cost)
    if there > latest then which, latest = k, there end
  end
  for k, p in ipairs(#parts > 1 and parts or {}) do
    local there = p.l.meter.next(p.l, p.cost, latest)
    if there > latest then which, latest = k, there end
  end
  return which, latest
end

-- isFull reports whether a new call must not wait at a limit, as so many calls wait or are booked there.
local function isFull(p, most)
  return most > 0 and p.l.card + p.l.bookings >= most and isNew(p)
end

-- wait gives a call a place at the limit that holds it back most, and at no other, or books it there. A
-- call that does not wait gets the forecast alone. Bookings before a call only decide whether it is
-- booked, too. The forecast of a waiting call assumes that no booked call comes back. Places of dead
-- processes refuse no call. If a head leaves a limit, the next one is called, ROW times in a row: many calls
-- may need both limits, and would all ask in vain.
local function wait(parts, item)
  local which, latest = farthest(parts, item, item.id and function(l, tag, cost) return bookings().returning(l, tag, cost, item.patience) end or forecast)
  if not item.waits then return 0, latest, which end
  local most = item.id and item.latest or item.within
  local late = most and latest - at > most
  if late or isFull(parts[which], item.most and item.most[which] or 0) then
    local l = parts[which].l
    local again = not l.cleared and clear(l, asking)
    l.cleared = true -- once in a script: it reads many places
    if again then return wait(parts, item) end
    for _, p in ipairs(parts) do
      if p.charged then shares().refund(p.l, p.place, p.tag) end
      if late and p.placed and item.within then leave(p.l, p.place, p.cost) end -- the place is from an ask whose reply was lost
    end
    return late and 4 or 5, latest, which
  end
  local books, told = item.id and latest - at > item.patience, latest
  if item.id and not books then which, told = farthest(parts, item, forecast) end
  if not books then told = comesBack(parts[which].l, near, told, parts[which].old or parts[which].placed) end
  for k, p in ipairs(parts) do
    local l = p.l
    if k ~= which or books then
      local first = p.placed and head(l) == p.place
      if leave(l, p.place, p.cost) and first and (p.called or 0) < ROW then callHead(l, (p.called or 0) + 1) end
    elseif call('ZADD', l.places, 'NX', format('%.17g', p.tag), p.place) == 1 then
      l.renews = l.renews or l.card == 0
      -- A tag later than now that the state does not know: the clock stepped back, and the state was lost. Other
      -- calls come back with tags of that clock, within SPREAD. New calls are behind them.
      local ahead = p.tag > max(l.seq, at) and l.virtual == 0 and SPREAD or 0
      l.card, l.total, l.first, l.sums, l.seq, l.newest = l.card + 1, l.total + p.cost, nil, nil, max(l.seq, p.tag + ahead), nil
    end
    if item.id then bookings().book(l, item.id, p.cost, k == which and books and p.tag or -p.tag, latest) end
    l.latest = max(l.latest, ceil(latest))
    askedAgain(l, item.call, p.cost)
  end
  return books and 3 or 0, told, which
end

-- refusal returns why a call cannot be asked for. If it can, refusal sets its places.
local function refusal(parts, item)
  local slotted
  for _, p in ipairs(parts) do
    if not p.l or p.l.problem then return p.l and p.l.problem or 'BADARG limit: want an index of KEYS' end
    local most = p.l.meter.most(p.l)
    if not (p.cost and p.cost >= 1 and p.cost == floor(p.cost)) then return 'BADARG cost: want a whole number above 0' end
    if p.cost > most then return format('EXCEEDS cost: want at most %.17g, got %.0f', most, p.cost) end
    if p.tag and not (p.tag > 0 and p.tag <= 9e15) then return 'BADARG tag: want a number above 0, at most 9e15' end
    p.place = format('%s:%.0f%s', item.call, p.cost, item.suffix)
    slotted = slotted or p.l.meter.tells
  end
  for _, p in ipairs(parts) do
    if not slotted then return end
    local asks = p.l.meter.asks
    if asks and asks(p.l, format('%s:%.0f:%s', item.call, p.cost, item.what)) then
      return 'CLOCK number: of a call that has slots since then, got ' .. item.call
    end
  end
end

-- tagged gives a part of a call its tag. It is the tag of the call's place, which the caller may not know
-- if a reply was lost. Without a place it is the tag of the booking, or the tag that the share of the
-- flow allows.
local function tagged(p, item, queued)
  local l, back = p.l, nil
  p.placed = item.waits and l.card > 0 and call('ZSCORE', l.places, p.place)
  p.tag = tonumber(p.placed or nil) or p.tag
  if item.id and not p.tag then
    back = bookings().booked(l, item.id, p.cost)
    p.tag, p.back = back and math.abs(back), back
    if back then bookings().supersede(l, p.tag, item.call) end
  end
  if item.flow or l.virtual > 0 then shares().order(p, item, back, queued) end
end

-- askOne answers one call, and returns the status of the answer.
local function askOne(answer, item, parts)
  local problem = refusal(parts, item)
  local status, moment, extra = 2, at, problem
  if not problem then
    local queued = false
    for _, p in ipairs(parts) do queued = queued or p.l.card > 0 or p.l.bookings > 0 end
    for _, p in ipairs(parts) do tagged(p, item, queued) end
    local due = item.id and item.patience < 0 and huge or agree(parts)
    local last = at + (item.waits and horizon or 0) -- how far ahead a turn may be given
    -- Processes with longer horizons would have the permits of the head again and again: it has as long a one. Its turn
    -- costs another limit no more than the turns do that others have, or its bucket bears it. It is directly behind those.
    local called, step = nil, 0
    for _, p in ipairs(item.waits and parts or {}) do
      p.called = p.l.meter.lost and p.l.called == item.call and p.l.row
      called = called or p.called
      step = max(step, p.l.kind == 'p' and p.cost * p.l.a or 0)
    end
    if called and #parts == 1 then last = max(last, min(at + FARTHEST, now + AHEAD)) end
    for _, p in ipairs(#parts > 1 and item.waits and parts or {}) do
      local spent = called and p.l.kind == 'p' and p.l.free + p.l.part - at or 0
      local ahead = spent + min(spent, step)
      local bears = called and p.l.kind == 'p' and due - (p.l.b - p.cost) * p.l.a <= at
      local others = p.l.kind == 'p' and p.l.card > 0 and callOf((head(p.l))) ~= item.call
      if p.l.meter.overflows(p.l, due, others) and not bears then last = ahead > near and min(last, at + ahead) or at + near end
    end
    if item.within then last = min(last, at + item.within) end
    local given = due <= last
    for _, p in ipairs(given and parts or {}) do given = entitled(p.l, p.tag, p.cost, last) <= last and given end
    if given then
      status, moment, extra = 1, due, format('%.0f', floor(spendAll(parts, due, item) - at))
    else
      status, moment, extra = wait(parts, item)
    end
  end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = status, format('%.0f', ceil(moment - at)), extra
  for _, p in ipairs(parts) do
    local number = p.record or p.tag
    answer[#answer + 1] = number and format('%.0f', number) or ''
  end
  return status
end

full = true
for _, item in ipairs(rest) do
  item.calls = {}
  for k = 1, min(item.count, MOST_ALIKE) do
    local id = format('%s:%.0f', ARGV[PROCESS], item.number + k - 1)
    item.calls[k], asking[id] = id, true
  end
end
for _, item in ipairs(rest) do
  local flow, answer = item.flow, { 0, #item.calls }
  item.suffix = flow and ':' .. (flow.urgent > 0 and '0' or flow.text) .. ':' .. flow.name or ''
  item.what = item.id or flow and flow.name or ''
  for k, id in ipairs(item.calls) do
    local parts = {}
    for p = 1, item.parts do
      local i = item.first - 2 + 3 * p
      local tag = ARGV[i + 2]
      parts[p] = { l = limit(i), cost = tonumber(ARGV[i + 1]), tag = tag ~= '' and (tonumber(tag) or 0 / 0) or nil, old = tag ~= '', place = '' }
    end
    item.call = id
    -- The turns of the calls behind it are too late as well. If they bring tags, the reply to their ask was lost, and they
    -- may have places.
    if askOne(answer, item, parts) == 4 and not parts[1].old then
      answer[2] = k
      break
    end
  end
  answers[item.n] = answer
end

-- The permits of a window come at one moment. The forecast of the next head may be a later window, as it counts many
-- places by their mean cost. So the head asks once more after turns were given, and then knows its window.
local function callQuota(l)
  wake(l)
  if l.kind == 'q' and match(l.last, '^%S+ %S+') == asked then callHead(l) end
end
return finish(callQuota)
