-- state.lua: the hash of one limit. It is read and checked as a whole, and only changed fields are
-- written.

local limits, byKey = {}, {} -- by index; a limit that a call names twice has one table

-- say writes the part of the reply about a limit.
local function say(j, version, reach, text, problem)
  local k = 4 * j - 2
  reply[k], reply[k + 1], reply[k + 2], reply[k + 3] = version, reach, text, problem
end

-- fields reads the hash, and checks the types of the other keys.
local function fields(l)
  local f = pcall('HMGET', l.key, unpack(FIELDS))
  local places, booked, log = pcall('ZCARD', l.places), pcall('ZCARD', l.booked), pcall('ZCARD', l.log)
  local renews = floor(now / RENEW) ~= floor((tonumber(f[2]) or 0) / RENEW) -- every RENEW
  local processes = renews and pcall('ZCARD', l.processes) or 0
  for _, reply in ipairs({ f, places, booked, log, processes }) do
    if type(reply) == 'table' and reply.err then return 'BADSTATE key: ' .. reply.err end
  end
  local was = { tonumber(f[1] or 0), tonumber(f[2] or 0), tonumber(f[3] or 0), tonumber(f[4] or 0), tonumber(f[5] or 0), tonumber(f[6] or 0),
    tonumber(f[7] or 0), tonumber(f[8] or 0), tonumber(f[9] or 0), tonumber(f[10] or 0), tonumber(f[11] or 0), tonumber(f[12] or 0),
    f[13] or '', f[14] or '', f[15] or '', f[16] or '', f[17] or '', f[18] or '', f[19] or '', f[20] or '0 0 0 0 0 0 0 0 0', f[21] or '', f[22] or '', f[23] or '', f[24] or '', f[25] or '' }
  for k = 1, NUMBERS do
    local x = was[k]
    if not x or x - x ~= 0 then return 'BADSTATE ' .. FIELDS[k] .. ': want a number, got ' .. f[k] end
  end
  l.protocol = f[21]
  if l.protocol ~= PROTOCOL then
    local written = tonumber(l.protocol or nil) or 0 -- by v0.2, or there is no state yet
    if written >= ODD then written = written - ODD end
    if written > PROTOCOL + 1 then return 'PROTOCOL ' .. written end
    l.protocol = format('%.0f', max(written, tonumber(PROTOCOL)))
  end
  if not met and ARGV[RUN] ~= '' and f[15] ~= ARGV[RUN] then meet(ARGV[RUN]) end
  l.was, l.renews, l.fresh, l.card, l.bookings, l.entries = was, renews, not f[13], places, booked, log
  l.version, l.seen, l.free, l.part, l.epoch, l.rank = was[1], ceil(was[2]), was[3], was[4], was[5], was[6]
  l.setUntil, l.paused, l.held, l.resumed, l.virtual, l.dense = was[7], was[8], was[9], was[10], was[11], was[12]
  l.plain, l.last, l.run, l.own, l.reason, l.steppedBack = was[13], was[14], f[15] or ARGV[RUN], was[17], was[18], was[22]
  l.closed, l.leased = tonumber(was[23]) or 0, tonumber(was[25]) or 0
  if l.fresh then
    if call('EXISTS', l.key) == 1 then return 'BADSTATE plain: want a text, got nothing' end
    l.card, l.bookings, l.entries, l.seen, l.free, l.epoch, was[4] = 0, 0, 0, now, at, now, nil
  end
  local form = l.form
  if f[16] and f[16] ~= l.mine then form = params(l, f[16]) end
  if not form then return 'BADSTATE limit: want two numbers, got ' .. f[16] end
  local total, seq, head, since, wanted, front, latest, span, returned = match(was[20], '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  l.total, l.seq, l.since, l.wanted, l.front = tonumber(total), tonumber(seq), tonumber(since), tonumber(wanted), tonumber(front)
  l.latest, l.span, l.returned, l.head, l.called = tonumber(latest), tonumber(span), tonumber(returned), match(head or '', '^([^:]*:?[^:]*):?(.*)$')
  l.called, l.row = match(l.called or '', '^([^/]*)/?(%d*)$')
  l.row = tonumber(l.row) or 0
  if not (l.total and l.seq and l.since and l.wanted and l.front and l.latest and l.span and l.returned and
    finite(l.total + l.seq + l.since + l.wanted + l.front + l.latest + l.span + l.returned)) then
    return 'BADSTATE queue: want 9 values, got ' .. was[20]
  end
  if form ~= l.form then
    if l.myRank <= l.rank then return format('PLAN %.0f %s', l.rank, l.own) end
    return changes().convert(l, was[13], was[19], was[24])
  end
  local till = was[24] ~= '' and tonumber(match(was[24], '%d+$') or nil) or 0
  if till > now then l.kept, l.keptTill = was[24], till end
  return l.meter.unpack(l, f[19] or nil)
end

-- endShares ends all debts of flows, if nobody waits. Calls of several limits may wait at another limit, up to the last
-- forecast. Without their debts, flows with more or larger calls would get more than their shares.
local function endShares(l)
  if l.virtual == 0 or l.card > 0 or l.bookings > 0 or l.latest > now then return end
  l.virtual, l.dense = 0, 0
  erase('UNLINK', l.flows)
end

-- giveBack undoes the last spending down to `keep` permits, if the ask made it, or an earlier one of a quota: see
-- earlier of quota.lua. If an ask has spent permits in two windows, the later spending comes back first. It returns how
-- many permits came back.
local function giveBack(l, who, keep)
  local asks, size, rest = {}, 0, 0
  for one, cost in gmatch(l.last, '([^ ;]+ [^ ;]+) ([^ ;]+)') do
    if who == one then rest = rest + tonumber(cost) end
  end
  for ask, one, cost, due in gmatch(l.last, '(([^ ;]+ [^ ;]+) ([^ ;]+) ?([^ ;]*))') do
    if one == who then
      cost = tonumber(cost)
      rest = rest - cost
      local stays = max(0, keep - rest)
      if cost > stays and l.meter.unspend(l, cost - stays, tonumber(due) or at) then
        ask, size = stays > 0 and format('%s %.0f %s', one, stays, due), size + cost - stays
      end
    end
    asks[#asks + 1] = ask or nil
  end
  if size == 0 then return 0 end
  sooner(l)
  tellLeft(l)
  l.last = table.concat(asks, ';')
  return size
end

local function load(j)
  limits[j] = byKey[KEYS[KEYED * (j - 1) + 1]]
  if limits[j] then return limits[j] end
  local l, problem = arguments(j)
  limits[j], byKey[l.key] = l, l
  l.problem = problem or fields(l)
  if l.problem then return l end
  if l.fresh then erase('UNLINK', l.places, l.log, l.booked, l.flows) end -- these keys are older than the state
  local unsure = l.was[2] % 1 > 0 or now - l.seen > STEP
  if l.seen > now or l.steppedBack ~= '' or l.clock > 0 and unsure then changes().step(l) end
  l.blind = unsure and l.brought == 0 and l.meter.refills and not l.stepped
  local epoch, run = tonumber(match(l.known, '^%d+') or 0), ARGV[RUN]
  if l.fresh or epoch > 0 and (epoch ~= l.epoch or l.version < l.brought) or run ~= '' and l.run ~= run then changes().recall(l, epoch) end
  if l.own == '' or l.myRank > l.rank then l.own, l.rank = l.mine, max(l.myRank, l.rank) end
  if l.setUntil > 0 and l.setUntil <= now then l.setUntil = 0 end
  if l.setUntil == 0 and l.own ~= l.limit then changes().become(l, l.own) end -- the one that has the highest rank
  if l.paused <= now then l.paused, l.held, l.reason = 0, 0, '' end
  if l.bookings > 0 and l.latest < now then -- all bookings are late; the limit is in use, so its keys do not expire
    erase('UNLINK', l.booked)
    l.bookings = 0
  end
  if l.card == 0 then l.total = 0 end
  if l.bookings == 0 then l.wanted, l.span = 0, 0 end
  endShares(l)
  l.far = floor(max(l.latest, l.paused, l.setUntil, l.keptTill) / RENEW)
  local back = ARGV[HEAD + WIDTH * (j - 1) + BACK]
  if back ~= '' then
    for who, keep in gmatch(back, '([^ ;]+ [^ ;]+) ?([^ ;]*)') do giveBack(l, who, tonumber(keep) or 0) end
  end
  return l
end

-- limit loads the limit that an item names, or returns nil.
local function limit(i)
  local j = tonumber(ARGV[i])
  return j and j >= 1 and KEYS[KEYED * j] and (limits[j] or load(j)) or nil
end

-- save writes the fields that changed. They are texts, as Redis takes texts the fastest.
local function save(l)
  l.version, l.seen = l.version + 1, l.blind and now - 0.5 or now
  endShares(l)
  local calm = not (l.card > 0 or l.bookings > 0 or l.virtual > 0 or l.paused > 0 or l.setUntil > 0 or l.kind ~= 'p' or l.low or l.steppedBack ~= '' or l.kept ~= '')
  l.plain = (calm and '' or '~') .. format('%.0f ', l.epoch) .. (l.run == '' and '-' or l.run) .. ' ' .. l.kind .. ' ' .. (l.form == '' and l.limit or match(l.limit, '%S+ %S+$'))
  local head = l.head ~= '0' and l.called ~= '' and l.head .. ':' .. l.called .. (l.row > 0 and '/' .. l.row or '') or l.head
  local queue = format('%d %d %s %.0f %d %d %.0f %.0f %d', l.total, l.seq, head, l.since, l.wanted, l.front, l.latest, l.span, l.returned)
  local is = { l.version, l.seen, l.free, l.part, l.epoch, l.rank, l.setUntil, l.paused, l.held, l.resumed, l.virtual, l.dense,
    l.plain, l.last, l.run, l.limit, l.own, l.reason, l.meter.pack(l) or '', queue, l.form == '' and l.leased == 0 and l.protocol or l.protocol + ODD .. '', l.steppedBack, l.closed > now and format('%.0f', l.closed) or '', l.kept, l.leased > 0 and format('%.0f', l.leased) or '' }
  local was, changes, n = l.was, {}, 0
  for k = 1, #FIELDS do
    local value = is[k]
    if value ~= was[k] then changes[n + 1], changes[n + 2], n = FIELDS[k], k <= NUMBERS and format('%.17g', value) or value, n + 2 end
  end
  call('HSET', l.key, unpack(changes))
  local far = max(l.latest, l.paused, l.setUntil, l.keptTill)
  local all = l.renews or floor(far / RENEW) ~= l.far
  if all or l.charged or l.logged then
    local life = format('%.0f', ceil((max(l.meter.life(l), far - now) + horizon + 3 * RENEW) / 1000))
    for _, key in ipairs(all and { l.key, l.places, l.booked } or {}) do call('PEXPIRE', key, life) end
    if all or l.charged and l.virtual > 0 then call('PEXPIRE', l.flows, life) end
    if all or l.logged then call('PEXPIRE', l.log, life) end
  end
  if l.left then tell(l, l.left > 0 and format('left:%.0f', l.left) or 'left') end
  if l.news and ARGV[CHANNEL] ~= '' then
    pcall('PUBLISH', ARGV[CHANNEL], format('news %s %.0f %s', table.concat(l.news, ','), now, l.key))
  end
end

-- STOPPED is how the reason of a hard stop begins, with the moment from which on a call may probe. stopOf is what a
-- reply about a stopped limit has after its text.
local STOPPED = '^hard stop (%d+)'
local function stopOf(l) return l.paused > 0 and match(l.reason, STOPPED) and '@stop ' .. l.reason or '' end

-- hasPlan reports whether the caller has plans.
local function hasPlan(l) return sub(ARGV[HEAD + WIDTH * (l.j - 1) + RANK], 1, 1) == '+' end

-- textOf is the text of a limit in a reply. If the caller has plans and brought another one than the newest,
-- that one follows. While the limit is stopped, the stop follows in its place.
local function textOf(l)
  local stop = stopOf(l)
  if stop ~= '' then return l.plain .. stop end
  if l.own ~= l.mine and hasPlan(l) then return format('%s@%.0f %s', l.plain, l.rank, l.own) end
  return l.plain == l.known and '' or l.plain
end

-- finish writes all limits that have no problem, and returns the reply.
local function finish(wake)
  for j, l in pairs(limits) do
    if not l.problem and l.j == j then
      if wake then wake(l) end
      save(l)
    end
  end
  for j, l in pairs(limits) do
    if l.problem then say(j, 0, '', '', l.problem) else say(j, l.version, l.meter.reach(l), textOf(l), '') end
  end
  return flat(reply, answers)
end
