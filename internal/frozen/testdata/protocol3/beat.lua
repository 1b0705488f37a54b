-- beat.lua: the heartbeat of a process, for all names that it uses. It records that the process lives,
-- and finds dead processes; both are known per process, not per name. Then it records under each name the
-- limit that the process was configured with. If the limits of living processes differ, the slowest is in
-- force. The report of the process is stored for people; no script reads it.
--
-- KEYS  1 processes (sorted set: process -> last beat; negative if it has died or ended)
--       2 beats   (hash: since -> the moment from which the heartbeats of the fleet have no gap;
--                 "protocol <number>" -> when a process that speaks this protocol sent its last
--                 heartbeat, for as long as one lives)
--       then per name:
--         limits  (hash: process -> "<pace> <limit>"; or "- <micros>": it stopped using the name
--                 then; or "! <micros> <limit>": since then its calls must not be made, as a limit
--                 of another kind is in force. Fields that begin with a space: the limit in force)
--         reports (hash: process -> its report; kept for ten minutes after the process has ended)
-- ARGV  1 nowMicros    '': the script takes Redis's TIME
--       2 process      without spaces and colons
--       3 deadMicros   a process that is silent for so long is dead
--       4 channel      for news; '': none
--       5 lives        1; 0: the process ends, and counts as dead
--       6 protocol     the protocol that the process speaks: a number, see PROTOCOL of head.lua
--       then per name:
--         kind         of its limit: p, q, r, s or w
--         pace         of its limit, in calls per second: the lowest pace is the slowest limit
--         limit        its text; '': the process no longer uses the name
--         report       for people; '': none
-- Reply nowMicros; 0 if the process was not known, 1 if it was, 2 if it counted as dead; when a
--       process last died or ended, in micros; the run of the server, '' if the user may not read
--       it; the lowest protocol of living processes, 0 if it is not known for three seconds after a
--       gap in all heartbeats; then per name: how many living processes use it; rank, text and kind
--       of the limit in force. If its kind differs, the limit of the process does not count, and its
--       calls must not be made. The same holds if the kind is a number: this is the protocol
--       of earlier processes, beside which this process cannot work. The last names
--       may be missing, so that the script does not take long: the process sends them again.

local call, format, find, match = redis.call, string.format, string.find, string.match
local PROCESSES, BEATS = KEYS[1], KEYS[2]
local HEAD, WIDTH = 6, 4
local MOST, WORK = 64, 96 -- processes; names, or processes of a name, that one script checks
local UNNAMED = 2 -- the protocol of v0.2, whose heartbeats do not name it
local KEEP, LOOK = 600000000, 60000000 -- micros: how long the dead are kept; how often all processes of a name are checked
local now, me, silence, channel, protocol = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[6])
local names = (#KEYS - 2) / 2
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if not (me and me ~= '' and not find(me, '[ :]') and silence and silence > 0 and channel and (ARGV[5] == '0' or ARGV[5] == '1')) then
  return redis.error_reply('BADARG process, deadMicros, lives: want a name, a number above 0, and 0 or 1, got ' .. tostring(me) .. ', ' ..
    tostring(ARGV[3]) .. ', ' .. tostring(ARGV[5]))
end
if not (protocol and protocol >= 1 and protocol == math.floor(protocol)) then
  return redis.error_reply('BADARG protocol: want a whole number from 1, got ' .. tostring(ARGV[6]))
end
if #ARGV ~= HEAD + WIDTH * names then
  return redis.error_reply('BADARG names: want 2 keys and 4 arguments of each, got ' .. #KEYS - 2 .. ' and ' .. #ARGV - HEAD)
end
for n = 1, names do
  local i = HEAD + WIDTH * (n - 1)
  local pace = tonumber(ARGV[i + 2])
  if not (find(ARGV[i + 1], '^[pqrsw]$') and pace and pace > 0) then
    return redis.error_reply('BADARG kind, pace: want p, q, r, s or w, and a number above 0, got ' .. ARGV[i + 1] .. ', ' .. ARGV[i + 2])
  end
end
local function tell(...)
  if channel ~= '' then redis.pcall('PUBLISH', channel, table.concat({ ... }, ' ')) end
end
local function micros(x) return format('%.0f', x) end

-- The process lives or ends.
local score = tonumber(call('ZSCORE', PROCESSES, me) or nil)
local last = tonumber(call('ZREVRANGE', PROCESSES, 0, 0, 'WITHSCORES')[2] or 0)
local beats, since, protocols = call('HGETALL', BEATS), nil, {}
for i = 1, #beats, 2 do
  local number = tonumber(match(beats[i], '^protocol (%d+)$') or nil)
  if number then protocols[number] = tonumber(beats[i + 1]) elseif beats[i] == 'since' then since = tonumber(beats[i + 1]) end
end
-- If all processes were silent, none of them counts as dead: Redis did not run, or its clock jumped.
if not since or last <= 0 or now - last > silence / 2 or now < last then
  since = now
  call('HSET', BEATS, 'since', micros(now))
end
-- Heartbeats in the future were written before the clock stepped back. They count as of now, and living
-- processes send new ones.
if last > now then
  for _, process in ipairs(call('ZRANGEBYSCORE', PROCESSES, '(' .. micros(now), '+inf', 'LIMIT', 0, MOST)) do
    call('ZADD', PROCESSES, micros(now), process)
  end
end
if ARGV[5] == '1' then
  call('ZADD', PROCESSES, micros(now), me)
elseif score then
  call('ZADD', PROCESSES, micros(-now), me)
end
if now - since >= silence then
  for _, process in ipairs(call('ZRANGEBYSCORE', PROCESSES, '(0', '(' .. micros(now - silence), 'LIMIT', 0, MOST)) do
    call('ZADD', PROCESSES, micros(-now), process)
    tell('dead', process)
  end
end
for _, process in ipairs(call('ZRANGEBYSCORE', PROCESSES, micros(-now + KEEP), '(0', 'LIMIT', 0, MOST)) do
  call('ZREM', PROCESSES, process)
end
local died = -math.min(0, tonumber(call('ZRANGE', PROCESSES, 0, 0, 'WITHSCORES')[2] or 0))

-- Processes share limits if their protocols are the same, or one follows the other. A later process that
-- cannot share the limits is refused: `foreign` is the protocol of the earlier processes. After a gap in all
-- heartbeats, all protocols count for a while, as all processes do.
local lowest, foreign = protocol, nil
for number, beaten in pairs(protocols) do
  if number == protocol then -- this one lives
  elseif now - since >= silence and now - beaten >= silence then
    call('HDEL', BEATS, 'protocol ' .. number)
  else
    lowest = math.min(lowest, number)
    if beaten > now then call('HSET', BEATS, 'protocol ' .. number, micros(now)) end -- the clock has stepped back
    if math.abs(number - protocol) > 1 then foreign = number end
  end
end
if ARGV[5] == '1' and not foreign then
  if not protocols[protocol] and next(protocols) then tell('protocol', protocol) end
  call('HSET', BEATS, 'protocol ' .. protocol, micros(now))
end
local life = micros(math.ceil((silence + KEEP) / 1000))
call('PEXPIRE', PROCESSES, life)
call('PEXPIRE', BEATS, life)
local info = redis.pcall('INFO', 'server')
-- 12 digits are enough. Redis stores a hash in its compact form only if no value is longer than 64 bytes.
local run = type(info) == 'string' and match(info, 'run_id:(%x+)') or ''
local reply = { now, not score and 0 or score > 0 and 1 or 2, died, string.sub(run, 1, 12), now - since < silence and 0 or lowest }

-- look removes dead processes from a name, and finds the slowest limit of the others. It returns how many
-- processes it has checked.
local function look(limits, reports, s)
  local all, users, gone = call('HGETALL', limits), {}, {}
  local of = {}
  for i = 1, #all, 2 do
    local process, text = all[i], all[i + 1]
    local left = match(text, '^%- (%d+)$')
    if string.sub(process, 1, 1) == ' ' then -- the limit in force
    elseif not left then
      users[#users + 1], of[process] = process, text
    elseif now - tonumber(left) > KEEP then
      gone[#gone + 1] = process
    end
  end
  if #gone > 0 then
    call('HDEL', limits, unpack(gone))
    call('HDEL', reports, unpack(gone))
  end
  local scores = #users > 0 and call('ZMSCORE', PROCESSES, unpack(users)) or {}
  local slowest, text, live, dead = math.huge, nil, 0, {}
  for k, process in ipairs(users) do
    local theirs, limit = match(of[process], '^(%S+) (.*)$')
    theirs = tonumber(theirs)
    if tonumber(scores[k] or 0) <= 0 then
      dead[#dead + 1], dead[#dead + 2] = process, '- ' .. micros(now)
    elseif theirs then
      live = live + 1
      if theirs < slowest or theirs == slowest and limit < text then slowest, text = theirs, limit end
    end
  end
  if #dead > 0 then call('HSET', limits, unpack(dead)) end
  s.live, s.pace, s.limit, s.looked = live, text and slowest or 0, text or s.limit, now
  call('PEXPIRE', limits, life)
  call('PEXPIRE', reports, life)
  return #all / 2
end

-- failing is the entry of a process whose calls fail, and was before. Its moment is when that began.
local function failing(entry, limit)
  return match(entry or '', '^! %d+ (.*)$') == limit and entry or '! ' .. micros(now) .. ' ' .. limit
end

-- silent returns how long ago a process of v0.2 has sent a heartbeat under a name: it writes the moment there.
local function silent(beaten) return math.abs(now - (tonumber(beaten or nil) or -math.huge)) end

-- note records the limit of a process under a name, and returns how much work that was.
local function note(limits, reports, kind, pace, limit, report)
  local f = call('HMGET', limits, ' kind', ' rank', ' limit', ' pace', ' live', ' looked', me, ' beat')
  local s = { kind = f[1], limit = f[3], pace = tonumber(f[4] or nil), live = tonumber(f[5] or 0), looked = tonumber(f[6] or 0) }
  local rank, ruling, was = tonumber(f[2] or 0), s.limit, f[7] and not find(f[7], '^[-!] ') and f[7]
  local mine, work = limit ~= '' and pace .. ' ' .. limit or nil, 1
  local old = not s.pace or died > s.looked or now < s.looked or now - s.looked > LOOK
  local n, before = #reply, foreign or silent(f[8]) < silence and UNNAMED
  if mine and before then
    local entry = failing(f[7], limit)
    if entry ~= f[7] then call('HSET', limits, me, entry, ' looked', 0) end -- so a later heartbeat looks who counts
    call('PEXPIRE', limits, life)
    if report ~= '' and call('HSET', reports, me, report) == 1 then call('PEXPIRE', reports, life) end
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = 0, 0, '', tostring(before)
    return work
  end
  if not (mine or f[1]) then -- no process used the name
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = 0, 0, '', ''
    return work
  end
  local looked, refused = s.looked, nil
  if not mine then
    kind = s.kind
  elseif s.kind and s.kind ~= kind then -- a name has one kind, as long as another living process uses it
    if old then work = work + 1 + look(limits, reports, s) / 8 end
    old = s.live <= (was and 1 or 0)
    if not old then
      refused = failing(f[7], limit)
      mine, kind = nil, s.kind
    end
  end
  local entry = mine or refused or f[7] and (find(f[7], '^%- ') and f[7] or '- ' .. micros(now))
  if entry ~= f[7] then call('HSET', limits, me, entry) end
  if mine ~= (was or nil) then
    local is = tonumber(pace)
    if was and s.limit == match(was, '^%S+ (.*)$') then
      old = true
    elseif mine and not old and (s.live == 0 or is < s.pace or is == s.pace and limit < s.limit) then
      s.pace, s.limit = is, limit
    end
    s.live = s.live + (mine and 1 or 0) - (was and 1 or 0)
  end
  if old then work = work + 1 + look(limits, reports, s) / 8 end
  if s.limit and s.limit ~= ruling then
    rank = rank + 1
    tell('limit', rank, limits)
  end
  if old or s.looked ~= looked or s.limit ~= ruling or mine ~= (was or nil) then
    call('HSET', limits, ' kind', kind, ' rank', rank, ' limit', s.limit or '', ' pace', format('%.17g', s.pace), ' live', s.live, ' looked', micros(s.looked))
  end
  if report ~= '' and (mine or refused or f[7]) and call('HSET', reports, me, report) == 1 then call('PEXPIRE', reports, life) end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = s.live, rank, s.limit or '', kind
  return work
end

local work = 0
for n = 1, names do
  if work >= WORK then break end
  local i = HEAD + WIDTH * (n - 1)
  work = work + note(KEYS[1 + 2 * n], KEYS[2 + 2 * n], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end
return reply
